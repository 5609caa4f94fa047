"""Layers that have expired."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, text

from penstock.store.rows import read_all

_MOST = 10_000
_DUE = text(
    """
    SELECT e.job, e.layer, e.reason, j.revision FROM expected_layers e JOIN jobs j ON j.name = e.job
    WHERE e.expires_at <= :now AND e.config IS NOT NULL AND NOT j.deleting
    ORDER BY e.expires_at, e.job LIMIT :most
    """
)


@dataclass(frozen=True, slots=True)
class Due:
    """A layer to be dropped. `revision` is the job's newest."""

    job: str
    layer: str
    reason: str
    revision: int


def due(connection: Connection, now: datetime) -> list[Due]:
    """Layers that expired by `now`, longest ago first; at most 10,000. By an index on the few that can expire."""
    return read_all(connection, Due, _DUE, {"now": now, "most": _MOST})
