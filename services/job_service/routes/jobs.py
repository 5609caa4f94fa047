"""Jobs: create or replace, list, read, delete; restart and release."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Response
from sqlalchemy import Connection

from penstock.config.validate import check_merged
from penstock.control.errors import Conflict, NotFound
from penstock.model.jobs import JobState
from penstock.store.engine import snapshot
from penstock.wire.jobs import JobPage, JobView, JobWrite, WithReason, Written
from services.job_service import access, cursors, requests
from services.job_service.answers import Answer, etag, layer_versions, write_answer
from services.job_service.requests import CallerOf, JobName, PartsOf, PrincipalOf, respond
from services.job_service.store import expected, jobs
from services.job_service.store.layers import all_layers
from services.job_service.writes import BASE, Verb, Write
from services.job_service.writes import expected as merged_of

router = APIRouter(tags=["jobs"], route_class=requests.StrictRoute)
ReasonBody = Annotated[WithReason, Body(default_factory=WithReason)]


@router.put("/v1/jobs/{job}", response_model=Written, responses={201: {"model": Written}})
def put_job(
    job: JobName, body: JobWrite, parts: PartsOf, caller: CallerOf, precondition: requests.JobPrecondition
) -> Response:
    """Creates a job, or replaces its base layer. `If-None-Match: *` creates only; `If-Match` is the base's version."""
    access.require_layer(caller.principal, BASE)
    write = Write(
        Verb.PUT_JOB,
        job,
        caller.principal.name,
        config=body.config,
        reason=body.reason,
        precondition=precondition,
    )

    def work(connection: Connection) -> Answer:
        done = parts.writer.one(connection, write)
        return write_answer(201 if done.action == "create" else 200, done)

    return respond(parts.writer.run(caller, work))


@router.get("/v1/jobs", response_model=JobPage)
def list_jobs(
    parts: PartsOf,
    _: PrincipalOf,
    prefix: requests.Text = "",
    owner: requests.OptionalText = None,
    state: JobState | None = None,
    cursor: requests.Cursor = None,
    limit: requests.Limit = 100,
) -> JobPage:
    """Jobs by name that match all the filters."""
    after = cursors.decode_name(cursor)
    with snapshot(parts.engine) as connection:
        rows = jobs.page(connection, limit=limit, after=after, prefix=prefix, owner=owner, state=state)
    return JobPage(jobs=list(rows), next=cursors.next_cursor(rows, limit, lambda row: row.job))


@router.get("/v1/jobs/{job}", response_model=JobView)
def get_job(job: JobName, parts: PartsOf, _: PrincipalOf, response: Response) -> JobView:
    """A job with its merged configuration. The ETag is the version of its base layer."""
    with snapshot(parts.engine) as connection:
        status = jobs.status(connection, job)
        stored = expected.read(connection, [job]).get(job)
        layers = all_layers(connection)
    if status is None or stored is None:
        raise NotFound(f"there is no job {job}", field="job", rule="known")
    response.headers["ETag"] = etag(stored.version(BASE))
    return JobView(
        **status.model_dump(),
        created_at=stored.created_at,
        config=check_merged(merged_of(stored, layers)).model_dump(mode="json"),
        layers=layer_versions(stored),
    )


@router.delete("/v1/jobs/{job}", response_model=Written, status_code=202)
def delete_job(job: JobName, parts: PartsOf, caller: CallerOf, reason: requests.Text = "") -> Response:
    """Stops the tasks of the job, then deletes it; its history is kept. May be repeated."""
    access.require_role(caller.principal, access.MAY_DELETE_JOBS)
    access.require_layer(caller.principal, BASE)
    write = Write(Verb.DELETE_JOB, job, caller.principal.name, reason=reason)
    return respond(parts.writer.run(caller, lambda connection: write_answer(202, parts.writer.one(connection, write))))


@router.post("/v1/jobs/{job}/restart", response_model=Written, status_code=202)
def restart_job(job: JobName, body: ReasonBody, parts: PartsOf, caller: CallerOf) -> Response:
    """Restarts all tasks of the job; their state is kept."""
    access.require_role(caller.principal, access.MAY_OPERATE_JOBS)
    write = Write(Verb.RESTART, job, caller.principal.name, reason=body.reason)
    return respond(parts.writer.run(caller, lambda connection: write_answer(202, parts.writer.one(connection, write))))


@router.post("/v1/jobs/{job}/release", response_model=Written, status_code=202)
def release_job(job: JobName, body: ReasonBody, parts: PartsOf, caller: CallerOf) -> Response:
    """Lets a job that failed too often be tried again."""
    access.require_role(caller.principal, access.MAY_OPERATE_JOBS)
    write = Write(Verb.RELEASE, job, caller.principal.name, reason=body.reason)

    def work(connection: Connection) -> Answer:
        done = parts.writer.one(connection, write)
        if not jobs.release(connection, job, done.revision):
            raise Conflict(
                f"the job {job} is neither quarantined nor failed: there is nothing to release",
                field="job",
                rule="quarantined",
            )
        return write_answer(202, done)

    return respond(parts.writer.run(caller, work))
