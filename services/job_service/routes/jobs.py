"""Jobs: create or replace, list, read, delete; restart and release."""

from __future__ import annotations

from typing import Any

from fastapi import Response
from sqlalchemy import Connection

from penstock.config.validate import read_merged
from penstock.control.errors import NotFound
from penstock.model.health import Health
from penstock.model.jobs import Action, JobState
from penstock.store.engine import snapshot
from penstock.wire.jobs import JobPage, JobView, JobWrite, Written
from services.job_service import access, requests
from services.job_service.answers import Answer, answer, etag, layer_versions, without_rows
from services.job_service.cursors import encode
from services.job_service.requests import CallOf, JobName, PageOf100, PartsOf, ReasonBody, Verify, respond, respond_view
from services.job_service.store import expected, jobs, lags, overview
from services.job_service.store.layers import all_layers
from services.job_service.store.readers import read_readers
from services.job_service.writes import BASE, Write
from services.job_service.writes import expected as merged_of

router = requests.router_of("jobs")


@router.put("/v1/jobs/{job}", response_model=Written, responses={201: {"model": Written}})
@requests.needs(access.of_layer(BASE))
def put_job(
    job: JobName,
    body: JobWrite,
    call: CallOf,
    precondition: requests.JobPrecondition,
    verify: Verify = True,
    allow_repeats: requests.AllowRepeats = False,
) -> Response:
    """Creates a job, or replaces its base layer. `If-None-Match: *` creates only; `If-Match` is the base's version.
    409 (`read_by_others`) when it may write rows again that an earlier job has written, and other jobs read them,
    unless `allow_repeats` is true."""
    given = (body.config, body.reason, precondition)
    write = Write(Action.CREATE, job, call.author, BASE, *given, allow_repeats=allow_repeats)
    return respond(call.write_verified(write, verify=verify))


@router.get("/v1/jobs", response_model=JobPage)
def list_jobs(
    parts: PartsOf,
    page: PageOf100,
    prefix: requests.Text = "",
    owner: requests.OptionalText = None,
    state: JobState | None = None,
    package: requests.OptionalText = None,
    topic: requests.OptionalText = None,
    health: Health | None = None,
) -> Response:
    """Jobs by name that match all the filters. `package` is `name/version`, and `topic` one that is read or written
    (`orders`; on a further Kafka cluster `orders@eu`): a task has it or is to have it, or a plan or restore that goes
    on needs it.

    With `health` a page may be short although more jobs follow.
    """
    used = {"package": package, "topic": topic}
    filters: dict[str, Any] = {"prefix": prefix, "owner": owner, "state": state, "health": health, **used}
    with snapshot(parts.engine) as connection:
        found = jobs.page(connection, limit=page.limit, after=page.after_name(), **filters)
        shown = lags.with_lags(connection, found.jobs)
    return respond_view(JobPage(jobs=shown, next=None if found.last is None else encode(found.last)))


@router.get("/v1/jobs/{job}", response_model=JobView)
def get_job(job: JobName, parts: PartsOf) -> Response:
    """A job with its merged configuration. The ETag is the version of its base layer."""
    with snapshot(parts.engine) as connection:
        status = jobs.status(connection, job)
        status = None if status is None else lags.with_lags(connection, [status])[0]
        stored = expected.read(connection, [job]).get(job)
        layers = all_layers(connection)
        sync = overview.sync(connection, job)
    if status is None or stored is None:
        raise NotFound(f"there is no job {job}", field="job", rule="known")
    view = JobView(
        **dict(status),
        created_at=stored.created_at,
        detail="" if sync is None else sync.detail,
        config=read_merged(merged_of(stored, layers)).model_dump(mode="json"),
        layers=layer_versions(stored),
    )
    return respond_view(view, etag(stored.version(BASE)))


@router.delete("/v1/jobs/{job}", response_model=Written, status_code=202)
@requests.needs(access.of_role(access.MAY_DELETE_JOBS), access.of_layer(BASE))
def delete_job(
    job: JobName, call: CallOf, precondition: requests.LayerPrecondition, reason: requests.Text = ""
) -> Response:
    """Stops the tasks of the job, then deletes it; its history is kept. May be repeated. `If-Match` is the base's
    version. `notes` of the answer name the jobs that read what it wrote."""
    write = Write(Action.DELETE, job, call.author, reason=reason, precondition=precondition)

    def work(connection: Connection) -> Answer:
        # Before the write, which locks the counter of revisions.
        readers = read_readers(connection, job)
        return answer(202, without_rows(call.write_in(connection, write), readers))

    return respond(call.run(work))


@router.post("/v1/jobs/{job}/restart", response_model=Written, status_code=202)
@requests.needs(access.of_role(access.MAY_OPERATE))
def restart_job(job: JobName, body: ReasonBody, call: CallOf) -> Response:
    """Restarts all tasks of the job; their state is kept."""
    return respond(call.write(202, Write(Action.RESTART, job, call.author, reason=body.reason)))


@router.post("/v1/jobs/{job}/release", response_model=Written, status_code=202)
@requests.needs(access.of_role(access.MAY_OPERATE))
def release_job(job: JobName, body: ReasonBody, call: CallOf) -> Response:
    """Lets a job that failed too often be tried again."""
    return respond(call.write(202, Write(Action.RELEASE, job, call.author, reason=body.reason)))
