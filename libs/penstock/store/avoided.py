"""Which tasks avoid which containers, until when: written by the Job Service, read by the Shard Manager."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import NamedTuple

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
_END = text("DELETE FROM avoided WHERE job = :job AND index = :index AND container = coalesce(:container, container)")
# Readers go on. Of two calls at once the second one counts what the first one wrote.
_ONE_AT_A_TIME = text("LOCK TABLE avoided IN SHARE ROW EXCLUSIVE MODE")
_LATELY = text(
    """
    SELECT (SELECT count(*) FROM avoided WHERE until > clock_timestamp()) AS rows, EXISTS (
        SELECT FROM cell_history
        WHERE action = 'task_moved' AND subject = ANY(:tasks) AND at > clock_timestamp() - CAST(:time AS interval)
    ) AS moved
    """
)
_READ = text(f"SELECT {columns(Avoidance)} FROM avoided WHERE until > clock_timestamp() ORDER BY job, index, container")


class Lately(NamedTuple):
    """`rows`: of the cell, that are not over. `is_moved`: whether a move of one of the tasks was asked for lately."""

    rows: int
    is_moved: bool


def avoid(connection: Connection, task: Avoidance, time: timedelta, *, author: str, reason: str) -> None:
    """The task avoids the container for so long; a repeated call makes that no shorter."""
    connection.execute(_FORGET)
    connection.execute(_AVOID, {**asdict(task), "time": time, "author": author, "reason": reason})


def end(connection: Connection, job: str, index: int, container: str | None) -> None:
    """The task avoids the container no longer; None: none of them."""
    connection.execute(_END, {"job": job, "index": index, "container": container})


def moved_lately(connection: Connection, tasks: Sequence[str], time: timedelta) -> Lately:
    """What was asked for until now. Until the end of the transaction no other one asks for a move."""
    connection.execute(_ONE_AT_A_TIME)
    found = connection.execute(_LATELY, {"tasks": list(tasks), "time": time}).one()
    return Lately(found.rows, found.moved)


def read_avoided(connection: Connection) -> list[Avoidance]:
    """All that are not over."""
    return read_all(connection, Avoidance, _READ)
