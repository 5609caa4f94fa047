"""Which tasks avoid which containers, until when: written by the Job Service, read by the Shard Manager."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta

from sqlalchemy import Connection, text

from penstock.store.rows import columns, read_all
from penstock.tasks.ownership import Avoidance

# What is over goes with the next write, so the table holds no more than what was asked for lately.
_FORGET = text("DELETE FROM avoided WHERE until <= clock_timestamp()")
_AVOID = text(
    """
    INSERT INTO avoided AS held (job, index, container, until, author, reason)
    VALUES (:job, :index, :container, clock_timestamp() + :time, :author, :reason)
    ON CONFLICT (job, index, container) DO UPDATE
        SET until = GREATEST(held.until, excluded.until), author = excluded.author, reason = excluded.reason
    """
)
_READ = text(f"SELECT {columns(Avoidance)} FROM avoided WHERE until > clock_timestamp() ORDER BY job, index, container")


def avoid(connection: Connection, task: Avoidance, time: timedelta, *, author: str, reason: str) -> None:
    """The task avoids the container for so long; a repeated call makes that no shorter."""
    connection.execute(_FORGET)
    connection.execute(_AVOID, {**asdict(task), "time": time, "author": author, "reason": reason})


def read_avoided(connection: Connection) -> list[Avoidance]:
    """All that are not over."""
    return read_all(connection, Avoidance, _READ)
