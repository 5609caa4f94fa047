"""Another scaling policy over what is recorded of a job: asked of the Auto Scaler, which has the decisions."""

from __future__ import annotations

from penstock.control.errors import Unavailable
from penstock.store import leases
from penstock.store.engine import snapshot
from penstock.wire.replays import ReplayCall, ReplayRequest, ReplayView
from services.job_service import access, requests
from services.job_service.requests import JobName, PartsOf, known_job

router = requests.router_of("one job")
_LOOP = "auto_scaler"


@router.post("/v1/jobs/{job}/replays", response_model=ReplayView)
@requests.needs(access.of_any_writer)
def replay_job(job: JobName, body: ReplayRequest, parts: PartsOf) -> ReplayView:
    """What another scaling policy would have done to the job, by a model. Changes nothing.

    `measured` is what happened. Compare `in_force` with `proposed`, which the same model tells; its error is the
    difference between `measured` and `model_of_measured`. At most 14 days. 503 while no Auto Scaler leads, and at
    once while another replay is under way.
    """
    with snapshot(parts.engine) as connection:
        known_job(connection, job)
        leader = leases.read(connection, _LOOP)
    if leader is None or not leader.url:
        raise Unavailable("no Auto Scaler has led in this cell yet, and it is the Auto Scaler that replays decisions")
    return parts.replays.replay(leader.url, ReplayCall(job=job, request=body))
