"""Containers for the API: how full they are, how many shards they own and how many tasks they report."""

from __future__ import annotations

from sqlalchemy import Connection, text

from penstock.wire.containers import ContainerView
from services.job_service.containers import container_view

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
    return [container_view(row) for row in connection.execute(_PAGE, {"limit": limit, "after": after})]


def container(connection: Connection, name: str) -> ContainerView | None:
    """One container; None when there is none of that name."""
    row = connection.execute(_ONE, {"name": name}).first()
    return None if row is None else container_view(row)
