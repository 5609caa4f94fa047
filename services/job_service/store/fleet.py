"""Containers for the API: how full they are, how many shards they own and how many tasks they report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, text


@dataclass(frozen=True, slots=True)
class ContainerRow:
    """A container, with the number of shards that it owns and of tasks that it reports.

    `placement`: as the Shard Manager wrote it; None: unknown. `lease_age_seconds`: by the store's clock.
    """

    name: str
    url: str
    region: str
    labels: Mapping[str, str]
    cpu_cores: float
    memory_bytes: int
    disk_bytes: int
    further_capacity: Mapping[str, float]
    placement: Any
    state: str
    availability: str
    drain_until: datetime | None
    availability_reason: str | None
    availability_by: str | None
    availability_at: datetime | None
    registered_at: datetime
    heartbeat_at: datetime
    lease_renewed_at: datetime | None
    lease_age_seconds: float
    shards: int
    tasks: int


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
    SELECT name, url, region, labels, cpu_cores, memory_bytes, disk_bytes, further_capacity, placement, state,
        availability, drain_until, availability_reason, availability_by, availability_at, registered_at, heartbeat_at,
        lease_renewed_at, CAST(greatest(0, extract(epoch FROM
            clock_timestamp() - greatest(heartbeat_at, lease_renewed_at))) AS double precision),
        coalesce(shards, 0), coalesce(tasks, 0)
    FROM page LEFT JOIN owned USING (name) LEFT JOIN reported USING (name) ORDER BY name
"""
_PAGE = text(_ROWS.format(chosen="name > :after ORDER BY name LIMIT :limit"))
_ONE = text(_ROWS.format(chosen="name = :name"))


def containers_page(connection: Connection, *, limit: int, after: str = "") -> Sequence[ContainerRow]:
    """At most `limit` containers by name, from after `after`, lost ones too."""
    return [ContainerRow(*row) for row in connection.execute(_PAGE, {"limit": limit, "after": after})]


def container(connection: Connection, name: str) -> ContainerRow | None:
    """One container; None when there is none of that name."""
    row = connection.execute(_ONE, {"name": name}).first()
    return None if row is None else ContainerRow(*row)
