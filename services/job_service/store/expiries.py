"""Layers that have expired."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, select

from penstock.store.tables import expected_layers, jobs

_MOST = 10_000


@dataclass(frozen=True, slots=True)
class Due:
    """A layer to be dropped. `revision` is the job's newest."""

    job: str
    layer: str
    reason: str
    revision: int


def due(connection: Connection, now: datetime) -> list[Due]:
    """Layers that expired by `now`, longest ago first; at most 10,000. By an index on the few that can expire."""
    columns = (expected_layers.c.job, expected_layers.c.layer, expected_layers.c.reason, jobs.c.revision)
    wanted = (
        select(*columns)
        .join(jobs, jobs.c.name == expected_layers.c.job)
        .where(expected_layers.c.expires_at <= now, expected_layers.c.config.is_not(None), ~jobs.c.deleting)
        .order_by(expected_layers.c.expires_at, expected_layers.c.job)
        .limit(_MOST)
    )
    return [Due(*row) for row in connection.execute(wanted)]
