"""The log of a task's host."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from penstock.config.declare import Name
from penstock.store.engine import snapshot
from penstock.wire.task_logs import DEFAULT_PART_BYTES, LARGEST_PART_BYTES, SMALLEST_PART_BYTES, TaskLog
from services.job_service import access, requests
from services.job_service.requests import JobName, PartsOf, TaskIndex, known_job

router = requests.router_of("one job")
Host = Annotated[Name | None, Query()]
Offset = Annotated[int | None, Query(ge=0, le=2**53)]
Limit = Annotated[int, Query(ge=SMALLEST_PART_BYTES, le=LARGEST_PART_BYTES)]


@router.get("/v1/jobs/{job}/tasks/{index}/log", response_model=TaskLog)
@requests.needs(access.of_role(access.MAY_OPERATE))
def task_log(
    job: JobName,
    index: TaskIndex,
    parts: PartsOf,
    host: Host = None,
    offset: Offset = None,
    limit_bytes: Limit = DEFAULT_PART_BYTES,
) -> TaskLog:
    """A part of the log of the host that runs a task, or ran it last: the newest, or from `offset` of `host` on. Lines
    of the host's other tasks are there too, so the role `oncall` is needed. Values of secrets are `***`."""
    with snapshot(parts.engine) as connection:
        known_job(connection, job)
    return parts.task_logs.part(job, index, host=host, offset=offset, limit_bytes=limit_bytes)
