"""Savepoints of a job: ask for one, list, read, delete, restore."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Response
from sqlalchemy import Connection

from penstock.control.errors import Conflict, NotFound
from penstock.model.jobs import Action
from penstock.store.engine import snapshot
from penstock.store.savepoints import DELETING, READY, SavepointRow
from penstock.wire.jobs import Written
from penstock.wire.savepoints import RestoreWrite, SavepointPage, SavepointView, SavepointWrite
from services.job_service import access, requests
from services.job_service.answers import Answer, answer
from services.job_service.requests import CallOf, JobName, PageOf100, PartsOf, expected_config, known_job, respond
from services.job_service.routes.rescale import write_patch
from services.job_service.savepoints import (
    FIRST_GENERATION,
    code_of,
    imported_config,
    require_below,
    require_compatible,
)
from services.job_service.store import flows, overview, packages, restores, savepoints
from services.job_service.store.layers import all_layers
from services.job_service.store.meeting import Asked
from services.job_service.writes import Write
from services.job_service.writes import expected as merged_of

router = requests.router_of("savepoints")
SavepointName = Annotated[str, requests.is_name("savepoint"), requests.in_path("savepoint")]


@router.post("/v1/jobs/{job}/savepoints", response_model=SavepointView, status_code=202)
@requests.needs(access.of_role(access.MAY_OPERATE))
def create_savepoint(job: JobName, body: SavepointWrite, call: CallOf) -> Response:
    """Requests a savepoint of the job while the job runs, or of the checkpoint of another Spark application: then the
    job need not have run. `state` shows when it is ready."""
    name = body.name or call.clock.now().strftime("%Y%m%d-%H%M%S-%f")

    def work(connection: Connection) -> Answer:
        stored = known_job(connection, job, lock=True)
        imported = None
        if body.checkpoint is None:
            running = overview.running_job(connection, job)
            if running is None or not running.started:
                raise Conflict(
                    f"the job {job} has never run, so it has no checkpoint to copy", field="job", rule="has_run"
                )
        else:
            require_below(body.checkpoint, call.path_roots)
            config = imported_config(merged_of(stored, all_layers(connection)))
            imported = savepoints.Imported(body.checkpoint, FIRST_GENERATION, stored.revision, config)
        row = savepoints.ask(connection, job=job, name=name, author=call.author, reason=body.reason, imported=imported)
        return answer(202, SavepointView.model_validate(row))

    return respond(call.run(work))


@router.get("/v1/jobs/{job}/savepoints", response_model=SavepointPage)
def list_savepoints(job: JobName, parts: PartsOf, page: PageOf100) -> SavepointPage:
    """Savepoints of a job, newest first. Those of a deleted job are listed, too."""
    before = page.after_number()
    with snapshot(parts.engine) as connection:
        rows = savepoints.page(connection, job, limit=page.limit, before=before)
    found = [SavepointView.model_validate(row) for row in rows]
    return SavepointPage(savepoints=found, next=page.next(rows, lambda row: row.number))


@router.get("/v1/jobs/{job}/savepoints/{savepoint}", response_model=SavepointView)
def get_savepoint(job: JobName, savepoint: SavepointName, parts: PartsOf) -> SavepointView:
    """One savepoint."""
    with snapshot(parts.engine) as connection:
        return SavepointView.model_validate(_require(connection, job, savepoint))


@router.delete("/v1/jobs/{job}/savepoints/{savepoint}", response_model=SavepointView, status_code=202)
@requests.needs(access.of_role(access.MAY_OPERATE))
def delete_savepoint(job: JobName, savepoint: SavepointName, call: CallOf) -> Response:
    """Deletes the files of a savepoint, then its row. May be repeated."""

    def work(connection: Connection) -> Answer:
        row = _require(connection, job, savepoint, lock=True)
        users = savepoints.restoring(connection, row.number)
        if users:
            raise Conflict(
                f"a restore from this savepoint is in progress: {', '.join(users)}",
                field="savepoint",
                rule="not_in_use",
            )
        if row.state != DELETING:
            savepoints.ask_to_delete(connection, row.number)
        return answer(202, SavepointView.model_validate(_require(connection, job, savepoint)))

    return respond(call.run(work))


@router.post("/v1/jobs/{job}/restore", response_model=Written, status_code=202)
@requests.needs(access.of_role(access.MAY_OPERATE))
def restore_job(job: JobName, body: RestoreWrite, call: CallOf) -> Response:
    """Sets the job back to a savepoint, or starts it from one of another job. Rows written since stay in the output
    and are written again: refused where other jobs read them, unless `allow_repeats` is true."""

    def work(connection: Connection) -> Answer:
        stored = known_job(connection, job, lock=True)
        row = _require(connection, body.of or job, body.savepoint, lock=True)
        if row.state != READY or row.config is None:
            raise Conflict(
                f"the savepoint {row.name} of {row.job} is {row.state}; only a ready one can be restored",
                field="savepoint",
                rule="ready",
            )
        # Before the first write: writes lock the revision counter, which comes last.
        packages.hold(connection, row.config, call.elapsed)
        flows.lock(connection)
        patch: dict[str, Any] = {} if body.task_count is None else {"task_count": body.task_count}
        if body.with_package:
            patch |= code_of(row.config, expected_config(connection, job))
        if patch:
            layer = access.highest_layer(call.principal, all_layers(connection))
            write_patch(connection, call, job, layer, patch, body.reason, allow_repeats=body.allow_repeats)
        done = call.write_in(connection, Write(Action.RESTORE, job, call.author, reason=body.reason))
        after = expected_config(connection, job)
        require_compatible(row.config, after)
        asked = Asked(stored, after.model_dump(mode="json"))
        notes = restores.judge(connection, asked, all_layers(connection), row, allowed=body.allow_repeats)
        savepoints.ask_to_restore(connection, job, row)
        return answer(202, done.model_copy(update={"notes": notes}))

    return respond(call.run(work))


def _require(connection: Connection, job: str, name: str, *, lock: bool = False) -> SavepointRow:
    row = savepoints.read(connection, job, name, lock=lock)
    if row is None:
        raise NotFound(f"the job {job} has no savepoint {name}", field="savepoint", rule="known")
    return row
