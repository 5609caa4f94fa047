"""Which jobs write a Postgres table by key. Two that do not know of each other silently replace each other's rows.

The note stands beside the table, in its database, so it holds for all cells that use that database. A table that was
dropped and made again has another oid, and so no notes.
"""

from __future__ import annotations

import psycopg

from penstock.control.errors import BrokenTask
from penstock.control.texts import first_few

# Any constant will do, as long as all sinks use the same one.
_LOCK = 0x70656E7374777274
_CREATE = """
CREATE TABLE IF NOT EXISTS penstock_writers (
    table_oid oid, job text, shared boolean NOT NULL, noted_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (table_oid, job))
"""
_IS_NOTED = """
SELECT EXISTS (SELECT FROM penstock_writers WHERE table_oid = %s::regclass AND job = %s AND shared = %s)
    AND NOT EXISTS (SELECT FROM penstock_writers WHERE job = %s AND table_oid <> %s::regclass)
"""
_OTHERS = """
SELECT job FROM penstock_writers WHERE table_oid = %s::regclass AND job <> %s AND NOT (shared AND %s) ORDER BY job
"""
_FORGET_OTHER_TABLES = "DELETE FROM penstock_writers WHERE job = %s AND table_oid <> %s::regclass"
_NOTE = """
INSERT INTO penstock_writers (table_oid, job, shared) VALUES (%s::regclass, %s, %s)
ON CONFLICT (table_oid, job) DO UPDATE SET shared = excluded.shared
"""


def take_table(connection: psycopg.Connection, table: str, job: str, *, shared: bool) -> None:
    """Notes that a job writes an existing table by key; `table` is quoted as in SQL. Safe to repeat.

    Raises BrokenTask when another job does so and not both have set `allow_other_writers`.
    """
    if _is_noted(connection, table, job, shared=shared):
        return
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        connection.execute(_CREATE)
        others = [name for (name,) in connection.execute(_OTHERS, (table, job, shared))]
        if others:
            raise BrokenTask(_taken(table, others), rule="table_taken")
        connection.execute(_FORGET_OTHER_TABLES, (job, table))
        connection.execute(_NOTE, (table, job, shared))


def _is_noted(connection: psycopg.Connection, table: str, job: str, *, shared: bool) -> bool:
    row = connection.execute("SELECT to_regclass('penstock_writers')").fetchone()
    if row in (None, (None,)):
        return False
    return connection.execute(_IS_NOTED, (table, job, shared, job, table)).fetchone() == (True,)


def _taken(table: str, others: list[str]) -> str:
    return (
        f"output.table: {first_few(others)} also writes to {table} by key, and each job would replace rows of the "
        "other. Choose another table. If this is meant, set output.allow_other_writers in all these jobs. If that job "
        f"is deleted: DELETE FROM penstock_writers WHERE job = '{others[0]}'"
    )
