"""Another number of tasks for a job."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from fastapi import APIRouter, Response
from sqlalchemy import Connection

from penstock.config.model import JobConfig
from penstock.config.validate import check_merged
from penstock.control.errors import Conflict, InvalidConfig, NotFound
from penstock.model.jobs import StoredLayer
from penstock.tasks.spec import key_group_count
from penstock.wire.jobs import RescaleWrite, Written
from services.job_service import access, balance, requests
from services.job_service.answers import Answer, write_answer
from services.job_service.requests import CallerOf, JobName, PartsOf, respond
from services.job_service.routes.layers import expiry_of
from services.job_service.store import expected, overview
from services.job_service.store.layers import all_layers
from services.job_service.writes import Expiry, Precondition, Verb, Write
from services.job_service.writes import expected as merged_of

router = APIRouter(tags=["jobs"], route_class=requests.StrictRoute)
MEASURED_SECONDS = 60


@router.post("/v1/jobs/{job}/rescale", response_model=Written, status_code=202)
def rescale_job(job: JobName, body: RescaleWrite, parts: PartsOf, caller: CallerOf) -> Response:
    """Sets `task_count` in `oncall`, or else in the highest layer that the token may write. The write does not expire
    unless `expires_in_seconds` is given. 409 when the layer has an expiry and the call gives none (null: never).
    With `balance` the call also sets `key_group_bounds` by the measured traffic; 409 when too little is measured.
    `/sync` shows the plan."""

    def work(connection: Connection) -> Answer:
        layer = access.highest_layer(caller.principal, all_layers(connection))
        author, given = caller.principal.name, expiry_of(body)
        patch: dict[str, Any] = {"task_count": body.task_count}
        if body.balance and body.task_count > 1:
            patch["key_group_bounds"] = _bounds(connection, job, body.task_count, parts.clock.now())
        write = rescale_write(connection, job, layer, patch, author, body.reason, given)
        return write_answer(202, parts.writer.one(connection, write))

    return respond(parts.writer.run(caller, work))


def _bounds(connection: Connection, job: str, task_count: int, now: datetime) -> list[int]:
    """Inner bounds for this number of tasks, by the measured traffic."""
    config = expected_config(connection, job)
    if task_count > key_group_count(config):
        raise InvalidConfig(
            f"task_count {task_count} is above the {key_group_count(config)} key groups of the inputs",
            field="task_count",
            rule="key_groups",
        )
    rates = balance.measured(overview.reported_tasks(connection, job), config, now, min_seconds=MEASURED_SECONDS)
    return list(balance.require(rates, balance.proposed(config, rates, task_count)).bounds)


def expected_config(connection: Connection, job: str) -> JobConfig:
    """What the job's layers merge to. Raises NotFound, and InvalidConfig when that is no valid job."""
    stored = expected.read(connection, [job]).get(job)
    if stored is None or not stored.exists:
        raise NotFound(f"there is no job {job}", field="job", rule="known")
    return check_merged(merged_of(stored, all_layers(connection)))


def rescale_write(
    connection: Connection,
    job: str,
    layer: str,
    patch: Mapping[str, Any],
    author: str,
    reason: str,
    given: Expiry | None = None,
) -> Write:
    """A patch of a layer as it is now. The job is locked until the transaction ends.

    Without `given` the patch does not expire. Raises Conflict when the layer has an expiry and `given` is None.
    """
    stored = expected.lock(connection, [job]).get(job)
    present = None if stored is None else stored.layers.get(layer)
    version = Precondition(if_match=0 if present is None else present.version)
    expiry = _expiry(given, present)
    return Write(Verb.PATCH, job, author, layer, patch, reason, version, expiry)


def _expiry(given: Expiry | None, present: StoredLayer | None) -> Expiry:
    """A rescale is permanent by default. A layer has one expiry, so the caller must decide for all of the layer."""
    if given is None and present is not None and present.expires_at is not None:
        raise Conflict(
            f"the layer {present.layer} expires at {present.expires_at.isoformat()}, and the rescale would expire with "
            "it: drop the layer, or send expires_in_seconds (null: never) for the whole layer",
            field="expires_in_seconds",
            rule="given_when_the_layer_expires",
        )
    return given or Expiry(None)
