"""Another number of tasks for a job."""

from __future__ import annotations

from fastapi import APIRouter, Response
from sqlalchemy import Connection

from penstock.control.errors import Conflict
from penstock.store import expected
from penstock.store.layers import all_layers
from penstock.store.records import StoredLayer
from penstock.wire.jobs import RescaleWrite, Written
from services.job_service import access, requests
from services.job_service.answers import Answer, write_answer
from services.job_service.requests import CallerOf, JobName, PartsOf, respond
from services.job_service.routes.layers import expiry_of
from services.job_service.writes import Expiry, Precondition, Verb, Write

router = APIRouter(tags=["jobs"], route_class=requests.StrictRoute)


@router.post("/v1/jobs/{job}/rescale", response_model=Written, status_code=202)
def rescale_job(job: JobName, body: RescaleWrite, parts: PartsOf, caller: CallerOf) -> Response:
    """Sets `task_count` in `oncall`, or else in the highest layer that the token may write; it stays unless
    `expires_in_seconds` is given. 409 when the layer is to end by itself already: then say when, or null for never.
    `/sync` shows the plan."""

    def work(connection: Connection) -> Answer:
        layer = access.highest_layer(caller.principal, all_layers(connection))
        author, given = caller.principal.name, expiry_of(body)
        write = rescale_write(connection, job, layer, body.task_count, author, body.reason, given)
        return write_answer(202, parts.writer.one(connection, write))

    return respond(parts.writer.run(caller, work))


def rescale_write(
    connection: Connection,
    job: str,
    layer: str,
    task_count: int,
    author: str,
    reason: str,
    given: Expiry | None = None,
) -> Write:
    """A patch of a layer as it is now; the job is locked until the transaction ends. It stays unless `given` says when
    it ends. Raises Conflict when the layer ends by itself already and nothing is given."""
    stored = expected.lock(connection, [job]).get(job)
    held = None if stored is None else stored.layers.get(layer)
    version = Precondition(if_match=0 if held is None else held.version)
    expiry = _expiry(given, held)
    return Write(Verb.PATCH, job, author, layer, {"task_count": task_count}, reason, version, expiry)


def _expiry(given: Expiry | None, held: StoredLayer | None) -> Expiry:
    """A rescale is meant to stay. A layer has one expiry, so what else it holds must not stay with it unasked."""
    if given is None and held is not None and held.expires_at is not None:
        raise Conflict(
            f"{held.layer} ends at {held.expires_at.isoformat()}, and the rescale would with it: drop the layer, "
            "or say when all of it is to end",
            field="expires_in_seconds",
            rule="given_when_the_layer_expires",
        )
    return given or Expiry(None)
