"""Which jobs write a Postgres table. The notes are in its database, so they hold for all cells that use that database.

Two jobs that write by key and do not know of each other silently replace each other's rows. They are noted in a table
beside it; one that was dropped and made again has another oid, and so no notes.

Appends of several jobs lose nothing, but a reader gets the rows of all: each job but the first must say that it is
meant. A new table has its first job in its comment, which needs no right beyond that to create the table. Whoever
replaces the comment takes the note away, and the table is anybody's; words after it do no harm.

Both kinds of notes have names of jobs only: two cells with a job of the same name are not told apart.
"""

from __future__ import annotations

import re

import psycopg
from psycopg import sql

from penstock.config.validate import JOB_NAME
from penstock.control.errors import BrokenTask
from penstock.control.texts import first_few

# Any constant will do, as long as all sinks use the same one.
_LOCK = 0x70656E7374777274
CREATE_WRITERS = """
CREATE TABLE IF NOT EXISTS penstock_writers (
    table_oid oid, job text, shared boolean NOT NULL, noted_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (table_oid, job))
"""
_IS_NOTED = """
SELECT EXISTS (SELECT FROM penstock_writers WHERE table_oid = %s::regclass AND job = %s AND shared = %s)
    AND NOT EXISTS (SELECT FROM penstock_writers WHERE job = %s AND table_oid <> %s::regclass)
"""
_OTHERS = """
SELECT job FROM penstock_writers
WHERE table_oid = %s::regclass AND split_part(job, '/', 1) <> split_part(%s, '/', 1) AND NOT (shared AND %s)
ORDER BY job
"""
_FORGET_OTHER_TABLES = "DELETE FROM penstock_writers WHERE job = %s AND table_oid <> %s::regclass"
_NOTE = """
INSERT INTO penstock_writers (table_oid, job, shared) VALUES (%s::regclass, %s, %s)
ON CONFLICT (table_oid, job) DO UPDATE SET shared = excluded.shared
"""
_COMMENT = "SELECT obj_description(%s::regclass, 'pg_class')"
_APPENDED_BY = "Rows of the Penstock job "
# What follows the name is no further part of it: a full stop may end a sentence.
_MAKER = re.compile(rf"{_APPENDED_BY}({JOB_NAME.pattern})(?![A-Za-z0-9_-])")


def series_of(job: str, side: str | None) -> str:
    """The name of one output of a job in the notes of a database: the job's own, or with a side output's behind it."""
    return job if side is None else f"{job}/{side}"


def job_of(series: str) -> str:
    """The job that an output of this name is of: no job has a slash in its name."""
    return series.partition("/")[0]


def note_maker(connection: psycopg.Connection, table: str, job: str) -> None:
    """Notes on a table that was just created which job appends to it; `table` is quoted as in SQL."""
    comment = sql.SQL("COMMENT ON TABLE {} IS {}")
    connection.execute(comment.format(sql.SQL(table), sql.Literal(_APPENDED_BY + job)))


def maker_in(comment: str) -> str | None:
    """The job that a table's comment names as the one that made it; somebody may have added words of their own. Pure.

    None: it names none.
    """
    found = _MAKER.match(comment)
    return None if found is None else found[1]


def require_own(connection: psycopg.Connection, table: str, job: str) -> None:
    """Raises BrokenTask when another job made the table to append to it."""
    row = connection.execute(_COMMENT, (table,)).fetchone()
    maker = maker_in((row and row[0]) or "")
    if maker not in (None, job):
        raise BrokenTask(
            f"output.table: the job {maker} made the table {table} and appends to it. Choose another table. If this is "
            f"meant, set output.allow_other_writers. If that job is deleted: COMMENT ON TABLE {table} IS NULL",
            rule="table_taken",
        )


def take_table(connection: psycopg.Connection, table: str, job: str, *, shared: bool) -> None:
    """Notes that an output of a job, as `series_of` names it, writes an existing table by key; `table` is quoted as in
    SQL. Safe to repeat.

    Raises BrokenTask when another job does so and not both have set `allow_other_writers`.
    """
    if _is_noted(connection, table, job, shared=shared):
        return
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        if not _is_there(connection):  # an account that may not create tables may use the one that is there
            connection.execute(CREATE_WRITERS)
        others = [name for (name,) in connection.execute(_OTHERS, (table, job, shared))]
        if others:
            raise BrokenTask(_taken(table, others), rule="table_taken")
        connection.execute(_FORGET_OTHER_TABLES, (job, table))
        connection.execute(_NOTE, (table, job, shared))


def _is_noted(connection: psycopg.Connection, table: str, job: str, *, shared: bool) -> bool:
    if not _is_there(connection):
        return False
    return connection.execute(_IS_NOTED, (table, job, shared, job, table)).fetchone() == (True,)


def _is_there(connection: psycopg.Connection) -> bool:
    return connection.execute("SELECT to_regclass('penstock_writers') IS NOT NULL").fetchone() == (True,)


def _taken(table: str, others: list[str]) -> str:
    return (
        f"output.table: {first_few(others)} also writes to {table} by key, and each job would replace rows of the "
        "other. Choose another table. If this is meant, set output.allow_other_writers in all these jobs. If that job "
        f"is deleted, or writes there no more: DELETE FROM penstock_writers WHERE job = '{others[0]}'"
    )
