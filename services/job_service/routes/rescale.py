"""Another number of tasks for a job."""

from __future__ import annotations

from dataclasses import replace

from fastapi import APIRouter, Response
from sqlalchemy import Connection

from penstock.store import expected
from penstock.store.layers import all_layers
from penstock.wire.jobs import RescaleWrite, Written
from services.job_service import access, requests
from services.job_service.answers import Answer, write_answer
from services.job_service.requests import CallerOf, JobName, PartsOf, respond
from services.job_service.routes.layers import expiry_of
from services.job_service.writes import Precondition, Verb, Write

router = APIRouter(tags=["jobs"], route_class=requests.StrictRoute)


@router.post("/v1/jobs/{job}/rescale", response_model=Written, status_code=202)
def rescale_job(job: JobName, body: RescaleWrite, parts: PartsOf, caller: CallerOf) -> Response:
    """Sets `task_count` in `oncall`, or else in the highest layer that the token may write. `/sync` shows the plan."""

    def work(connection: Connection) -> Answer:
        layer = access.highest_layer(caller.principal, all_layers(connection))
        write = rescale_write(connection, job, layer, body.task_count, caller.principal.name, body.reason)
        return write_answer(202, parts.writer.one(connection, replace(write, expiry=expiry_of(body))))

    return respond(parts.writer.run(caller, work))


def rescale_write(connection: Connection, job: str, layer: str, task_count: int, author: str, reason: str) -> Write:
    """A patch of a layer as it is now; the job is locked until the transaction ends."""
    stored = expected.lock(connection, [job]).get(job)
    version = Precondition(if_match=0 if stored is None else stored.version(layer))
    return Write(Verb.PATCH, job, author, layer, {"task_count": task_count}, reason, version)
