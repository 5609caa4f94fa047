"""Single tasks: one that is slow where it runs moves to another container, with its shard."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Body, Response
from sqlalchemy import Connection

from penstock.control.errors import Conflict, NotFound
from penstock.control.logs import logger
from penstock.model.cell import CellAction, CellEntry
from penstock.store.avoided import avoid, end, moved_lately
from penstock.store.cell_history import record
from penstock.store.cluster import read_facts
from penstock.tasks.ownership import Avoidance
from penstock.tasks.spec import task_id
from penstock.wire.moves import MoveWrite, TaskMove
from services.job_service import access, requests, views
from services.job_service.answers import Answer, answer
from services.job_service.requests import CallOf, JobName, TaskIndex, known_job, respond
from services.job_service.store import fleet, overview

log = logger(__name__)
router = APIRouter(tags=["jobs"], route_class=requests.StrictRoute)
MOST_AVOIDED = 100
_PAUSE = timedelta(minutes=10)
MoveBody = Annotated[MoveWrite, Body(default_factory=MoveWrite)]


@router.post("/v1/jobs/{job}/tasks/{index}/move", response_model=TaskMove, status_code=202)
@requests.needs(access.of_role(access.MAY_MOVE))
def move_task(job: JobName, index: TaskIndex, body: MoveBody, call: CallOf) -> Response:
    """The task's shard leaves its container, with the other tasks in it, within about a minute, and stays away for
    `for_seconds`; 0 ends it. 409 when nobody runs it, when it is not on the `container` given, and when no other
    container is open. If no other container may take the shard, by region, labels or room, it stays. The role `scaler`
    moves one task of a job in 10 minutes (409, `one_move`), and none while 100 tasks of the cell stay away from a
    container (`most_moves`).
    """

    def work(connection: Connection) -> Answer:
        container, tasks = _container_of(connection, job, index)
        if call.principal.role == access.SCALER:
            _brake(connection, job, tasks)
        if body.for_seconds:
            _leave(connection, Avoidance(job, index, container), body, call.author)
        else:
            end(connection, job, index, body.container)
        done = TaskMove(job=job, index=index, container=container, for_seconds=body.for_seconds)
        what = {"old": {"container": container}} if body.for_seconds else {"new": {"container": container}}
        record(connection, CellEntry(call.author, CellAction.TASK_MOVED, task_id(job, index), body.reason, **what))
        return answer(202, done)

    done = call.run(work)
    log.info("move of a task asked for", job=job, index=index, author=call.author, reason=body.reason)
    return respond(done)


def _leave(connection: Connection, task: Avoidance, body: MoveWrite, author: str) -> None:
    name, container = task_id(task.job, task.index), task.container
    if body.container not in (None, container):
        raise Conflict(f"{name} is on {container} by now", field="container", rule="owner")
    if not fleet.is_open_beside(connection, container):
        raise Conflict(f"no other container than {container} is open", field="container", rule="elsewhere")
    avoid(connection, task, timedelta(seconds=body.for_seconds), author=author, reason=body.reason)


def _brake(connection: Connection, job: str, tasks: int) -> None:
    """A program that asks too often stops no more than a few tasks. People may always. Raises Conflict."""
    lately = moved_lately(connection, [task_id(job, index) for index in range(tasks)], _PAUSE)
    if lately.is_moved:
        raise Conflict(f"a task of {job} was moved within {_PAUSE.seconds // 60} minutes", field="job", rule="one_move")
    if lately.rows >= MOST_AVOIDED:
        detail = f"{lately.rows} tasks of the cell stay away from a container, and a scaler may add to {MOST_AVOIDED}"
        raise Conflict(detail, field="job", rule="most_moves")


def _container_of(connection: Connection, job: str, index: int) -> tuple[str, int]:
    """The container that owns the shard of a task, and how many tasks the job has. Raises NotFound, and Conflict when
    nobody owns the shard."""
    running = overview.running_job(connection, job)
    if running is None:
        known_job(connection, job)
    found = views.places(job, running, (), read_facts(connection).sharding)
    shard = next((place.shard for place in found if place.number == index), None)
    if index >= len(found):
        raise NotFound(f"{job} has no task {index}", field="index", rule="known")
    container = None if shard is None else overview.owners(connection, [shard]).get(shard)
    if container is None:
        raise Conflict(f"no container runs {task_id(job, index)}", field="index", rule="owner")
    return container, len(found)
