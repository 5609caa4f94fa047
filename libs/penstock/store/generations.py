"""The generations of checkpoints that are noted, for the Job Service; the State Syncer notes and collects them."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, text

_OF_JOB = text(
    """
    SELECT generation, attempted, unused_since, container IS NOT NULL AS collecting, detail
    FROM generations WHERE job = :job AND collected_at IS NULL ORDER BY generation
    """
)


class NotedRow(NamedTuple):
    """A generation whose files are there; `unused_since` None while it is used. `detail`: why they cannot go."""

    generation: int
    attempted: bool
    unused_since: datetime | None
    collecting: bool
    detail: str


def of_job(connection: Connection, job: str) -> list[NotedRow]:
    """A job's generations whose files are there, as far as they are noted."""
    return [NotedRow(*row) for row in connection.execute(_OF_JOB, {"job": job})]
