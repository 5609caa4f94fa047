"""Forgets containers that are gone for good."""

from __future__ import annotations

from sqlalchemy import Connection, delete, text

from penstock.store.cluster_tables import reports, tasks

_REMOVE = text(
    """
    DELETE FROM containers
    WHERE state = 'lost'
      AND greatest(registered_at, heartbeat_at, lease_renewed_at)
          < clock_timestamp() - make_interval(secs => :seconds)
      AND NOT EXISTS (SELECT FROM assignment WHERE assignment.container = containers.name)
    RETURNING name
    """
)


def remove_lost(connection: Connection, older_than_seconds: float) -> set[str]:
    """Deletes the rows of lost containers that were not heard of for so long and own no shard, with their reports; the
    names of those. A container that comes back later is new, and open."""
    removed = set(connection.execute(_REMOVE, {"seconds": older_than_seconds}).scalars())
    if removed:
        connection.execute(delete(reports).where(reports.c.container.in_(removed)))
        connection.execute(delete(tasks).where(tasks.c.container.in_(removed)))
    return removed
