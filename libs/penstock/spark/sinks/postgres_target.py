"""The statements of the Postgres sink for one task: target table, marker table, stage."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import IO, NamedTuple, cast

import psycopg
from psycopg import sql

from penstock.control.errors import BrokenTask
from penstock.spark.sinks.batch_marker import Marker
from penstock.spark.sinks.postgres_columns import require_column_type
from penstock.spark.sinks.postgres_writers import note_maker, series_of

# Any constant will do, as long as all sinks use the same one.
_DDL_LOCK = 0x70656E73746F636B
_NO_BATCH = -1

CREATE_MARKERS = """
CREATE TABLE IF NOT EXISTS penstock_batches (
    job text, task_index integer, generation bigint,
    batch_id bigint NOT NULL, query_id text NOT NULL, rows bigint NOT NULL,
    committed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (job, task_index, generation))
"""
_READ_MARKER = """
SELECT batch_id, query_id FROM penstock_batches WHERE job = %s AND task_index = %s AND generation = %s
"""
# Locks the row, creating it if missing, and returns the marker.
_CLAIM_MARKER = """
INSERT INTO penstock_batches AS marker (job, task_index, generation, batch_id, query_id, rows)
VALUES (%s, %s, %s, -1, '', 0)
ON CONFLICT (job, task_index, generation) DO UPDATE SET job = marker.job
RETURNING batch_id, query_id
"""
_WRITE_MARKER = """
UPDATE penstock_batches SET batch_id = %s, query_id = %s, rows = %s, committed_at = clock_timestamp()
WHERE job = %s AND task_index = %s AND generation = %s
"""


# All of these; a list of them in one call would ask for any.
_MARKER_RIGHTS = " AND ".join(
    f"has_table_privilege('penstock_batches', '{right}')" for right in ("SELECT", "INSERT", "UPDATE")
)
_READ_COLUMNS = """
SELECT attname, CASE WHEN typbasetype = 0 THEN format_type(atttypid, atttypmod)
    ELSE format_type(typbasetype, typtypmod) END
FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid
WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped
"""


class MarkerKey(NamedTuple):
    """The row of penstock_batches that belongs to an output of a task's generation, by its primary key. `job`: as
    `series_of` names the output."""

    job: str
    task_index: int
    generation: int

    @classmethod
    def of(cls, job: str, index: int, generation: int, side: str | None) -> MarkerKey:
        """That of the job's `output`, or of the side output of this name."""
        return cls(series_of(job, side), index, generation)


def read_marker(connection: psycopg.Connection, key: MarkerKey) -> Marker | None:
    """The marker as committed; takes no lock."""
    return _marker(connection.execute(_READ_MARKER, key).fetchone())


def claim_marker(connection: psycopg.Connection, key: MarkerKey) -> Marker | None:
    """The marker, locked until the transaction ends. The lock orders an old owner of the task and its successor."""
    return _marker(connection.execute(_CLAIM_MARKER, key).fetchone())


def write_marker(connection: psycopg.Connection, key: MarkerKey, marker: Marker, rows: int) -> None:
    """Replaces the claimed marker."""
    connection.execute(_WRITE_MARKER, (marker.batch_id, marker.query_id, rows, *key))


class Target:
    """A table to write to: `columns` maps each column of the query to its Postgres type.

    Names are taken as they are written, upper and lower case included. `table` may be `schema.table`.
    """

    def __init__(self, table: str, columns: dict[str, str], upsert_columns: Sequence[str]) -> None:
        self.table = table
        self._columns = columns
        self._upsert_columns = tuple(upsert_columns)
        self._identifier = sql.Identifier(*table.split("."))
        # The name is new for each start of a task: a connection may still have a stage with the columns of before.
        self.stage = f"penstock_stage_{uuid.uuid4().hex[:12]}"
        self._stage_identifier = sql.Identifier("pg_temp", self.stage)

    def ensure(self, connection: psycopg.Connection, job: str) -> None:
        """Creates the target and the marker table where missing, once even when several tasks ask at once. A new target
        to append to is noted as the job's.

        Raises BrokenTask when the target lacks a column of the query.
        """
        if not all(self._exist(connection)):
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (_DDL_LOCK,))
                connection.execute(CREATE_MARKERS)
                self._ensure_table(connection, job)
        self._require_columns(connection)

    def check_insert(self, connection: psycopg.Connection) -> None:
        """Lets Postgres plan the insert, which checks types, rights and the unique key of an upsert.

        Raises BrokenTask when the account may not write markers.
        """
        connection.execute(sql.SQL("EXPLAIN {}").format(self._insert()))
        row = connection.execute(f"SELECT {_MARKER_RIGHTS}".encode()).fetchone()
        if row != (True,):
            raise BrokenTask(
                "output.connection: its account may not SELECT, INSERT and UPDATE the table penstock_batches, where "
                "each batch is noted: grant that"
            )

    def make_stage(self, connection: psycopg.Connection) -> None:
        """A temporary table with the target's types and none of its constraints.

        It lives as long as the connection: one for every batch would fill Postgres's catalogs with dead rows, and
        `ON COMMIT DELETE ROWS` would empty the stages of all tasks in every transaction (40 ms for a hundred).
        """
        statement = sql.SQL("CREATE TEMPORARY TABLE {} AS SELECT {} FROM {} WITH NO DATA")
        connection.execute(statement.format(sql.Identifier(self.stage), self._names(), self._identifier))

    def empty_stage(self, connection: psycopg.Connection) -> None:
        """For the next batch; a rollback leaves the stage empty by itself."""
        connection.execute(sql.SQL("TRUNCATE {}").format(self._stage_identifier))

    def column_with_nul(self, rows: IO[bytes]) -> str | None:
        """The column in which COPY text, read again from its beginning, has the character NUL; None without one."""
        rows.seek(0)
        line = next((line for line in rows if b"\0" in line), None)
        return None if line is None else list(self._columns)[line.partition(b"\0")[0].count(b"\t")]

    def copy_statement(self) -> sql.Composed:
        """Takes COPY text into the stage."""
        return sql.SQL("COPY {} ({}) FROM STDIN").format(self._stage_identifier, self._names())

    def insert(self, connection: psycopg.Connection) -> int:
        """Moves the stage's rows into the target; returns how many were inserted or replaced."""
        return connection.execute(self._insert()).rowcount

    def quoted(self, connection: psycopg.Connection) -> str:
        """The table's name as SQL has it."""
        return self._identifier.as_string(connection)

    def _exist(self, connection: psycopg.Connection) -> tuple[bool, bool]:
        """Whether the marker table and the target are there."""
        names = ("penstock_batches", self.quoted(connection))
        found = "SELECT to_regclass(%s) IS NOT NULL, to_regclass(%s) IS NOT NULL"
        return cast(tuple[bool, bool], connection.execute(found, names).fetchone())

    def _ensure_table(self, connection: psycopg.Connection, job: str) -> None:
        _, is_there = self._exist(connection)
        if is_there:
            return
        connection.execute(self._create())
        if not self._upsert_columns:
            note_maker(connection, self.quoted(connection), job)

    def _require_columns(self, connection: psycopg.Connection) -> None:
        found: dict[str, str] = dict(connection.execute(_READ_COLUMNS, (self.quoted(connection),)).fetchall())
        missing = sorted(self._columns.keys() - found.keys())
        if missing:
            raise BrokenTask(f"output.table: the table {self.table} has no column {', '.join(missing)}")
        for name, kind in self._columns.items():
            require_column_type(self.table, name, kind, found[name])

    def _create(self) -> sql.Composed:
        parts: list[sql.Composable] = [
            sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(kind)) for name, kind in self._columns.items()
        ]
        if self._upsert_columns:
            parts.append(sql.SQL("PRIMARY KEY ({})").format(self._keys()))
        return sql.SQL("CREATE TABLE {} ({})").format(self._identifier, sql.SQL(", ").join(parts))

    def _insert(self) -> sql.Composed:
        statement = sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {}").format(
            self._identifier, self._names(), self._names(), self._stage_identifier
        )
        return statement + self._on_conflict() if self._upsert_columns else statement

    def _on_conflict(self) -> sql.Composed:
        others = [name for name in self._columns if name not in self._upsert_columns]
        if not others:
            return sql.SQL(" ON CONFLICT ({}) DO NOTHING").format(self._keys())
        pairs = [sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in others]
        return sql.SQL(" ON CONFLICT ({}) DO UPDATE SET {}").format(self._keys(), sql.SQL(", ").join(pairs))

    def _names(self) -> sql.Composed:
        return sql.SQL(", ").join(map(sql.Identifier, self._columns))

    def _keys(self) -> sql.Composed:
        return sql.SQL(", ").join(map(sql.Identifier, self._upsert_columns))


def _marker(row: tuple[int, str] | None) -> Marker | None:
    return None if row is None or row[0] == _NO_BATCH else Marker(*row)
