"""Containers for the API: how full they are, how many shards they own and how many tasks they report."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError
from sqlalchemy import Connection, text

from penstock.tasks.dimensions import CPU, DISK, MEMORY
from penstock.wire.containers import ContainerView, PlacementView

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
