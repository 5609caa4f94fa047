"""Containers for the API: how full they are, how many shards they own and how many tasks they report."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from pydantic import ValidationError
from sqlalchemy import Connection, text

from penstock.store.rows import read_first
from penstock.tasks.dimensions import CPU, DISK, MEMORY
from penstock.tasks.ownership import Member
from penstock.wire.containers import ContainerView, PlacementView
from services.job_service.takers import Offer

_ROWS = """
    WITH page AS (SELECT * FROM containers WHERE {chosen}),
    owned AS (
        SELECT container AS name, count(*) AS shards FROM assignment
        WHERE container IN (SELECT name FROM page) GROUP BY container
    ),
    reported AS (
        SELECT container AS name, count(*) AS tasks FROM tasks
        WHERE container IN (SELECT name FROM page) GROUP BY container
    )
    SELECT page.*, CAST(greatest(0, extract(epoch FROM
            clock_timestamp() - greatest(heartbeat_at, lease_renewed_at))) AS double precision) AS lease_age_seconds,
        coalesce(owned.shards, 0) AS shards, coalesce(reported.tasks, 0) AS tasks
    FROM page LEFT JOIN owned USING (name) LEFT JOIN reported USING (name) ORDER BY name
"""
_PAGE = text(_ROWS.format(chosen="name > :after ORDER BY name LIMIT :limit"))
_ONE = text(_ROWS.format(chosen="name = :name"))
_STANDING = text(
    """
    SELECT url, region, incarnation, state, registered_at,
        (SELECT count(*) FROM assignment WHERE assignment.container = containers.name) AS shards,
        CAST(extract(epoch FROM clock_timestamp() - greatest(registered_at, heartbeat_at, lease_renewed_at))
            AS double precision) AS silent_seconds
    FROM containers WHERE name = :name FOR UPDATE
    """
)
_LIVE = text("SELECT *, true AS live FROM containers WHERE state = 'live' ORDER BY name")
_FORGET = [
    text(f"DELETE FROM {table} WHERE {column} = :name")
    for table, column in (
        ("tasks", "container"),
        ("reports", "container"),
        ("avoided", "container"),
        ("containers", "name"),
    )
]


class Standing(NamedTuple):
    """What decides whether a container may be forgotten, and what the history keeps of it."""

    url: str
    region: str
    incarnation: str
    state: str
    registered_at: datetime
    shards: int
    silent_seconds: float


def standing(connection: Connection, name: str) -> Standing | None:
    """How a container stands, locked until the transaction ends; None when there is none of that name."""
    return read_first(connection, Standing, _STANDING, {"name": name})


def forget(connection: Connection, name: str) -> None:
    """Removes a container with what it reported; no task avoids another one of its name."""
    for statement in _FORGET:
        connection.execute(statement, {"name": name})


def offers(connection: Connection) -> list[Offer]:
    """The live containers by name, with what is usable of them where the newest placement tells it."""
    rows = connection.execute(_LIVE).all()
    placed = [_placement(row.placement) for row in rows]
    return [
        Offer(Member(*(getattr(row, name) for name in Member._fields)), {} if found is None else found.usable)
        for row, found in zip(rows, placed, strict=True)
    ]


def containers_page(connection: Connection, *, limit: int, after: str = "") -> list[ContainerView]:
    """At most `limit` containers by name, from after `after`, lost ones too."""
    return [_view(row) for row in connection.execute(_PAGE, {"limit": limit, "after": after})]


def container(connection: Connection, name: str) -> ContainerView | None:
    """One container; None when there is none of that name."""
    row = connection.execute(_ONE, {"name": name}).first()
    return None if row is None else _view(row)


def _view(row: Any) -> ContainerView:
    """A row with its capacity in every dimension."""
    own = {CPU: row.cpu_cores, MEMORY: float(row.memory_bytes), DISK: float(row.disk_bytes)}
    made = {"capacity": {**own, **row.further_capacity}, "placement": _placement(row.placement)}
    return ContainerView(**made, **{name: getattr(row, name) for name in ContainerView.model_fields.keys() - made})


def _placement(written: Any) -> PlacementView | None:
    """None, unknown, as well for what another version has written."""
    try:
        return None if written is None else PlacementView.model_validate(written)
    except ValidationError:
        return None
