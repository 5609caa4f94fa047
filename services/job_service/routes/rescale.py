"""Another number of tasks for a job."""

from __future__ import annotations

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
        stored = expected.lock(connection, [job]).get(job)
        version = 0 if stored is None else stored.version(layer)
        write = Write(
            Verb.PATCH,
            job,
            caller.principal.name,
            layer,
            {"task_count": body.task_count},
            body.reason,
            Precondition(if_match=version),
            expiry_of(body),
        )
        return write_answer(202, parts.writer.one(connection, write))

    return respond(parts.writer.run(caller, work))
