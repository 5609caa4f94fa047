"""Containers: the fleet, and whether each takes shards."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Body, Path, Response
from sqlalchemy import Connection

from penstock.control.errors import NotFound
from penstock.control.logs import logger
from penstock.store.availability import set_availability
from penstock.store.engine import snapshot
from penstock.tasks.ownership import CORDONED, DRAINING, OPEN
from penstock.wire.containers import ContainerPage, ContainerView, DrainWrite
from penstock.wire.jobs import WithReason
from services.job_service import access, cursors, requests
from services.job_service.answers import Answer
from services.job_service.requests import CallerOf, PartsOf, PrincipalOf, respond
from services.job_service.store import fleet
from services.job_service.writer import Caller

log = logger(__name__)
router = APIRouter(tags=["cluster"], route_class=requests.StrictRoute)
ContainerName = Annotated[str, Path(pattern=requests.NAME, description="the container's name")]
ReasonBody = Annotated[WithReason, Body(default_factory=WithReason)]
DrainBody = Annotated[DrainWrite, Body(default_factory=DrainWrite)]


@router.get("/v1/containers", response_model=ContainerPage)
def list_containers(
    parts: PartsOf, _: PrincipalOf, cursor: requests.Cursor = None, limit: requests.Limit = 1000
) -> ContainerPage:
    """Containers by name, lost ones too: state, availability, load and deviation by dimension, shards, lease age."""
    after = cursors.decode_name(cursor)
    with snapshot(parts.engine) as connection:
        rows = fleet.containers_page(connection, limit=limit, after=after)
    return ContainerPage(containers=rows, next=cursors.next_cursor(rows, limit, lambda row: row.name))


@router.get("/v1/containers/{container}", response_model=ContainerView)
def get_container(container: ContainerName, parts: PartsOf, _: PrincipalOf) -> ContainerView:
    """One container."""
    with snapshot(parts.engine) as connection:
        return _view(connection, container)


@router.post("/v1/containers/{container}/cordon", response_model=ContainerView)
def cordon_container(container: ContainerName, body: ReasonBody, parts: PartsOf, caller: CallerOf) -> Response:
    """The container keeps its shards and gets no new ones. A drain of it ends. May be repeated."""
    return _set(parts, caller, container, CORDONED, body.reason)


@router.post("/v1/containers/{container}/drain", response_model=ContainerView, status_code=202)
def drain_container(container: ContainerName, body: DrainBody, parts: PartsOf, caller: CallerOf) -> Response:
    """Moves all shards of the container to others as these have room; `shards` is the number that remains. After
    `limit_seconds` the remaining shards leave at once; a shard without room elsewhere then has no owner, and an alert.
    Any container may be drained, also the last open one and a lost one. A repeated call restarts the limit."""
    limit = None if body.limit_seconds is None else parts.clock.now() + timedelta(seconds=body.limit_seconds)
    return _set(parts, caller, container, DRAINING, body.reason, status=202, drain_until=limit)


@router.post("/v1/containers/{container}/uncordon", response_model=ContainerView)
def uncordon_container(container: ContainerName, body: ReasonBody, parts: PartsOf, caller: CallerOf) -> Response:
    """The container takes shards again. A drain of it ends. May be repeated."""
    return _set(parts, caller, container, OPEN, body.reason)


def _set(
    parts: PartsOf,
    caller: Caller,
    container: str,
    availability: str,
    reason: str,
    *,
    status: int = 200,
    drain_until: datetime | None = None,
) -> Response:
    access.require_role(caller.principal, access.MAY_OPERATE_CONTAINERS)
    author = caller.principal.name

    def work(connection: Connection) -> Answer:
        set_availability(connection, container, availability, reason=reason, drain_until=drain_until, author=author)
        return Answer(status, _view(connection, container).model_dump(mode="json"))

    answer = parts.writer.run(caller, work)
    log.info("availability written", container=container, availability=availability, author=author, reason=reason)
    return respond(answer)


def _view(connection: Connection, container: str) -> ContainerView:
    found = fleet.container(connection, container)
    if found is None:
        raise NotFound(f"there is no container {container}", field="container", rule="known")
    return found
