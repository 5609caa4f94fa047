"""Rollouts of packages: how far one is, and what operators ask of it."""

from __future__ import annotations

from fastapi import Response
from sqlalchemy import Connection

from penstock.model.jobs import Action
from penstock.store.engine import snapshot
from penstock.wire.jobs import Written
from penstock.wire.rollouts import RolloutView, RolloutWrite
from services.job_service import access, requests
from services.job_service.answers import Answer, answer
from services.job_service.calls import Call
from services.job_service.requests import CallOf, JobName, PartsOf, known_job, respond
from services.job_service.rollouts import decide_order, view_of
from services.job_service.store import rollouts
from services.job_service.writes import Write

router = requests.router_of("rollouts")


@router.get("/v1/jobs/{job}/rollout", response_model=RolloutView)
def get_rollout(job: JobName, parts: PartsOf) -> RolloutView:
    """How far the package of the job has gone out; `state` is `none` when no package is going out."""
    with snapshot(parts.engine) as connection:
        known_job(connection, job)
        return view_of(job, rollouts.read(connection, job))


@router.post("/v1/jobs/{job}/rollout/pause", response_model=Written, status_code=202)
@requests.needs(access.of_role(access.MAY_OPERATE))
def pause_rollout(job: JobName, body: RolloutWrite, call: CallOf) -> Response:
    """No further wave begins until the rollout is resumed; upgraded tasks keep the package. Tasks that crash still end
    it, and so does the write of another package. A rescale waits."""
    return _order(job, Action.PAUSE_ROLLOUT, body, call)


@router.post("/v1/jobs/{job}/rollout/resume", response_model=Written, status_code=202)
@requests.needs(access.of_role(access.MAY_OPERATE))
def resume_rollout(job: JobName, body: RolloutWrite, call: CallOf) -> Response:
    """The rollout continues. One that is `late` continues by itself, once its tasks are reported."""
    return _order(job, Action.RESUME_ROLLOUT, body, call)


@router.post("/v1/jobs/{job}/rollout/abort", response_model=Written, status_code=202)
@requests.needs(access.of_role(access.MAY_OPERATE))
def abort_rollout(job: JobName, body: RolloutWrite, call: CallOf) -> Response:
    """The package is rejected: all tasks go back to the one before, by the layer `rollback`."""
    return _order(job, Action.ABORT_ROLLOUT, body, call)


def _order(job: str, action: Action, body: RolloutWrite, call: Call) -> Response:
    def work(connection: Connection) -> Answer:
        known_job(connection, job, lock=True)
        found = rollouts.read(connection, job, lock=True)
        asked = decide_order(job, action, found, call.author, body.reason, call.clock.now())
        rollouts.order(connection, job, asked)
        return answer(202, call.write_in(connection, Write(action, job, call.author, reason=body.reason)))

    return respond(call.run(work))
