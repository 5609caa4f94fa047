"""Who keeps a connection waiting for a lock: asked by another connection, while it waits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from sqlalchemy import Connection, text

from penstock.control.repeat import repeating

_LOOK_SECONDS = 0.5
# No text of a statement: it may hold what nobody else is to read.
_BLOCKERS = """
    SELECT coalesce(waiting.relation::regclass::text, waiting.locktype) AS place, holder.pid,
        coalesce(holder.usename, '') AS account, coalesce(nullif(holder.application_name, ''), 'no name') AS program,
        coalesce(holder.state, 'unknown') AS state,
        round(extract(epoch FROM clock_timestamp() - holder.xact_start)) AS seconds
    FROM pg_locks waiting, unnest(pg_blocking_pids(waiting.pid)) AS blocker
    JOIN pg_stat_activity holder ON holder.pid = blocker
    WHERE waiting.pid = %s AND NOT waiting.granted
    ORDER BY holder.xact_start LIMIT 5
"""


class LockWait:
    """What a connection was last seen to wait for; empty words while it never waited."""

    def __init__(self) -> None:
        self.words = ""

    def observe(self, parameters: dict[str, Any], pid: int) -> None:
        """Looks once. What cannot be found out is left as it is."""
        with suppress(psycopg.Error), psycopg.connect(autocommit=True, **parameters) as other:
            if found := other.execute(_BLOCKERS, (pid,)).fetchall():
                self.words = "; ".join(
                    f"{place} is locked by process {holder} ({program}, account {account}, {state}, for {seconds} s)"
                    for place, holder, account, program, state, seconds in found
                )


@contextmanager
def watched(connection: Connection, parameters: dict[str, Any]) -> Iterator[LockWait]:
    """Watches a connection in the block. `parameters`: how to connect to the same server."""
    wait = LockWait()
    pid = int(connection.execute(text("SELECT pg_backend_pid()")).scalar_one())
    with repeating("lock-waits", lambda: wait.observe(parameters, pid), _LOOK_SECONDS):
        yield wait
