"""Containers: the fleet, and whether each takes shards."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from fastapi import Body, Response
from sqlalchemy import Connection

from penstock.control.errors import NotFound
from penstock.control.logs import logger
from penstock.model.alerts import CONTAINER_ALERTS
from penstock.model.cell import CellAction, CellEntry
from penstock.store import cluster
from penstock.store.alerts import clear_alerts
from penstock.store.availability import set_availability
from penstock.store.avoided import read_avoided
from penstock.store.cell_history import record
from penstock.store.engine import snapshot
from penstock.store.health import read_moment
from penstock.store.loads import read_loads_of
from penstock.tasks.ownership import CORDONED, DRAINING, OPEN
from penstock.tasks.spec import task_id
from penstock.wire.containers import ContainerPage, ContainerView, DrainWrite
from penstock.wire.overview import ContainerTasks
from services.job_service import access, requests, views
from services.job_service.answers import Answer, answer
from services.job_service.calls import Call
from services.job_service.forgetting import require_forgettable
from services.job_service.requests import CallOf, PageOf1000, PartsOf, ReasonBody, respond
from services.job_service.store import fleet, overview

log = logger(__name__)
router = requests.router_of("cluster")
ContainerName = Annotated[str, requests.is_name("container"), requests.in_path("container")]
DrainBody = Annotated[DrainWrite, Body(default_factory=DrainWrite)]


@router.get("/v1/containers", response_model=ContainerPage)
def list_containers(parts: PartsOf, page: PageOf1000) -> ContainerPage:
    """Containers by name, lost ones too: state, availability, load and deviation by dimension, shards, lease age."""
    after = page.after_name()
    with snapshot(parts.engine) as connection:
        rows = fleet.containers_page(connection, limit=page.limit, after=after)
    return ContainerPage(containers=rows, next=page.next(rows, lambda row: row.name))


@router.get("/v1/containers/{container}", response_model=ContainerView)
def get_container(container: ContainerName, parts: PartsOf) -> ContainerView:
    """One container."""
    with snapshot(parts.engine) as connection:
        return _view(connection, container)


@router.get("/v1/containers/{container}/tasks", response_model=ContainerTasks)
def container_tasks(container: ContainerName, parts: PartsOf, page: PageOf1000) -> ContainerTasks:
    """The tasks that the container reports, of all jobs, by job and index: state, error, lag, and where each should
    run. A task that it owns and has not reported yet is only among the tasks of its job."""
    after = page.after_task()
    with snapshot(parts.engine) as connection:
        _view(connection, container)
        reported = overview.tasks_on(connection, container, limit=page.limit, after=after)
        running = overview.running_jobs(connection, sorted({task.job for task in reported}))
        found = views.by_job(reported, running, cluster.read_facts(connection).sharding)
        shards = [place.shard for each in found for place in each.places if place.shard is not None]
        owners = overview.owners(connection, shards)
        here = [(task.job, task.index) for task in reported]
        loads, avoided = read_loads_of(connection, here), read_avoided(connection)
        tasks = views.tasks_of_container(found, owners, loads, avoided, read_moment(connection))
    following = page.next(reported, lambda task: task_id(task.job, task.index))
    return ContainerTasks(container=container, tasks=tasks, next=following)


@router.post("/v1/containers/{container}/cordon", response_model=ContainerView)
@requests.needs(access.of_role(access.MAY_OPERATE))
def cordon_container(container: ContainerName, body: ReasonBody, call: CallOf) -> Response:
    """The container keeps its shards and gets no new ones. A drain of it ends. May be repeated."""
    return _set(call, container, CORDONED, body.reason)


@router.post("/v1/containers/{container}/drain", response_model=ContainerView, status_code=202)
@requests.needs(access.of_role(access.MAY_OPERATE))
def drain_container(container: ContainerName, body: DrainBody, call: CallOf) -> Response:
    """Moves all shards of the container to others as these have room; `shards` is the number that remains. After
    `limit_seconds` the remaining shards leave at once; a shard without room elsewhere then has no owner, and an alert.
    Any container may be drained, also the last open one and a lost one. A repeated call restarts the limit."""
    limit = None if body.limit_seconds is None else call.clock.now() + timedelta(seconds=body.limit_seconds)
    return _set(call, container, DRAINING, body.reason, status=202, drain_until=limit)


@router.post("/v1/containers/{container}/uncordon", response_model=ContainerView)
@requests.needs(access.of_role(access.MAY_OPERATE))
def uncordon_container(container: ContainerName, body: ReasonBody, call: CallOf) -> Response:
    """The container takes shards again. A drain of it ends. May be repeated."""
    return _set(call, container, OPEN, body.reason)


@router.delete("/v1/containers/{container}", status_code=204, response_class=Response)
@requests.needs(access.of_role(access.MAY_OPERATE))
def forget_container(container: ContainerName, call: CallOf, reason: requests.Text = "") -> Response:
    """Forgets a container that is lost, or was silent for five minutes, and owns no shard. 409 for any other one. A
    container that comes back is new, and open."""

    def work(connection: Connection) -> Answer:
        found = fleet.standing(connection, container)
        if found is None:
            raise _unknown(container)
        require_forgettable(container, found.state, found.shards, found.silent_seconds)
        fleet.forget(connection, container)
        for kind in CONTAINER_ALERTS:
            clear_alerts(connection, kind, [container])
        entry = CellEntry(call.author, CellAction.CONTAINER_FORGOTTEN, container, reason, old=found._asdict())
        record(connection, entry)
        return Answer(204, None)

    return respond(call.run(work))


def _set(
    call: Call,
    container: str,
    availability: str,
    reason: str,
    *,
    status: int = 200,
    drain_until: datetime | None = None,
) -> Response:
    why = {"reason": reason, "author": call.author}

    def work(connection: Connection) -> Answer:
        set_availability(connection, container, availability, drain_until=drain_until, **why)
        return answer(status, _view(connection, container))

    done = call.run(work)
    log.info("availability written", container=container, availability=availability, **why)
    return respond(done)


def _view(connection: Connection, container: str) -> ContainerView:
    found = fleet.container(connection, container)
    if found is None:
        raise _unknown(container)
    return found


def _unknown(container: str) -> NotFound:
    return NotFound(f"there is no container {container}", field="container", rule="known")
