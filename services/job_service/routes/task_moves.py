"""Single tasks: one that is slow where it runs moves to another container, with its shard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

from fastapi import Body, Response
from sqlalchemy import Connection

from penstock.control.errors import Conflict, NotFound
from penstock.control.logs import logger
from penstock.model.cell import CellAction, CellEntry
from penstock.store import leases
from penstock.store.avoided import avoid, end, moved_lately, read_avoided
from penstock.store.cell_history import record
from penstock.store.cluster import read_facts
from penstock.store.loads import read_loads
from penstock.tasks.ownership import Avoidance
from penstock.tasks.spec import task_id
from penstock.wire.moves import MoveWrite, TaskMove
from services.job_service import access, requests, views
from services.job_service.answers import Answer, answer
from services.job_service.requests import CallOf, JobName, TaskIndex, known_job, respond
from services.job_service.store import fleet, overview
from services.job_service.takers import Leaving, job_tasks, least_load, require_taker

log = logger(__name__)
router = requests.router_of("jobs")
MOST_AVOIDED = 100
_PAUSE = timedelta(minutes=10)
MoveBody = Annotated[MoveWrite, Body(default_factory=MoveWrite)]


@dataclass(frozen=True, slots=True)
class At:
    """A task and the container that owns its shard. `places`: of all tasks that its job should run."""

    job: str
    index: int
    shard: int
    container: str
    running: overview.RunningRow
    places: Sequence[views.Place]


@router.post("/v1/jobs/{job}/tasks/{index}/move", response_model=TaskMove, status_code=202)
@requests.needs(access.of_role(access.MAY_MOVE))
def move_task(job: JobName, index: TaskIndex, body: MoveBody, call: CallOf) -> Response:
    """The task's shard leaves its container, with the other tasks in it, within about a minute, and stays away for
    `for_seconds`; 0 ends it. 409 when nobody runs it, when it is not on the `container` given, and when no other
    container may take the shard (`elsewhere`): each is lost, cordoned, drained, of another region, without a label, or
    too small. `unknown` in the answer says why that is not known. A shard for which placement finds no room beside
    other shards stays. The role `scaler` moves one task of a job in 10 minutes (409, `one_move`), and none while 100
    tasks of the cell stay away from a container (`most_moves`).
    """

    def work(connection: Connection) -> Answer:
        at = _place_of(connection, job, index)
        container, unknown = at.container, None
        if call.principal.role == access.SCALER:
            _brake(connection, job, len(at.places))
        if body.for_seconds:
            unknown = _leave(connection, at, body, call.author)
        else:
            end(connection, job, index, body.container)
        done = TaskMove(job=job, index=index, container=container, for_seconds=body.for_seconds, unknown=unknown)
        what = {"old": {"container": container}} if body.for_seconds else {"new": {"container": container}}
        record(connection, CellEntry(call.author, CellAction.TASK_MOVED, task_id(job, index), body.reason, **what))
        return answer(202, done)

    done = call.run(work)
    log.info("move of a task asked for", job=job, index=index, author=call.author, reason=body.reason)
    return respond(done)


def _leave(connection: Connection, at: At, body: MoveWrite, author: str) -> str | None:
    """What is not known of the containers that may take the task. Raises Conflict."""
    name = task_id(at.job, at.index)
    if body.container not in (None, at.container):
        raise Conflict(f"{name} is on {at.container} by now", field="container", rule="owner")
    unknown: str | None = "no Shard Manager leads, so nobody says which containers are live"
    if leases.has_leader(connection, leases.SHARD_MANAGER):
        unknown = require_taker(_leaving(connection, at), fleet.offers(connection))
    leaves = Avoidance(at.job, at.index, at.container)
    avoid(connection, leaves, timedelta(seconds=body.for_seconds), author=author, reason=body.reason)
    return unknown


def _leaving(connection: Connection, at: At) -> Leaving:
    tasks = [place.number for place in at.places if place.shard == at.shard]
    others = (each for each in read_avoided(connection) if each.job == at.job and each.index in tasks)
    job = job_tasks(at.job, at.running.config, at.running.generation, len(at.places))
    return Leaving(
        task=task_id(at.job, at.index),
        shard=at.shard,
        container=at.container,
        selector=job.selector,
        avoids=frozenset({at.container, *(each.container for each in others)}),
        load=least_load(job, tasks, read_loads(connection, at.job)),
    )


def _brake(connection: Connection, job: str, tasks: int) -> None:
    """A program that asks too often stops no more than a few tasks. People may always. Raises Conflict."""
    lately = moved_lately(connection, [task_id(job, index) for index in range(tasks)], _PAUSE)
    if lately.is_moved:
        raise Conflict(f"a task of {job} was moved within {_PAUSE.seconds // 60} minutes", field="job", rule="one_move")
    if lately.rows >= MOST_AVOIDED:
        detail = f"{lately.rows} tasks of the cell stay away from a container, and a scaler may add to {MOST_AVOIDED}"
        raise Conflict(detail, field="job", rule="most_moves")


def _place_of(connection: Connection, job: str, index: int) -> At:
    """Where a task is. Raises NotFound, and Conflict when nobody owns its shard."""
    running = overview.running_job(connection, job)
    if running is None:
        known_job(connection, job)
    found = views.places(job, running, (), read_facts(connection).sharding)
    shard = next((place.shard for place in found if place.number == index), None)
    if running is None or index >= len(found):
        raise NotFound(f"{job} has no task {index}", field="index", rule="known")
    container = None if shard is None else overview.owners(connection, [shard]).get(shard)
    if shard is None or container is None:
        raise Conflict(f"no container runs {task_id(job, index)}", field="index", rule="owner")
    return At(job, index, shard, container, running, found)
