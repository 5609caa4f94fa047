"""Rows to a Postgres table, exactly once: the rows of a batch and its marker are one transaction.

A batch, in the order of its steps:

1. Read the task's marker. The batch is there already: run the query without a sink, so that its state is kept, and
   end (`batch_marker` says what the other cases mean).
2. Run the query in Spark; its rows come as COPY text and wait in a spool. No connection is held meanwhile.
3. In one transaction: COPY into a temporary table, lock the marker and look at it again, insert or upsert, write the
   marker. A zombie and its successor with the same batch meet at the lock, and the second skips. Nothing is locked
   while rows are sent, so a zombie that was stopped there holds nobody up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import IO

import psycopg
from psycopg import errors
from pyspark.sql import Column, DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock.config.model import JobConfig, PostgresOutput
from penstock.control.errors import BrokenTask
from penstock.control.logs import logger
from penstock.spark.parts import connection_url
from penstock.spark.sinks.batch_marker import Marker, is_written
from penstock.spark.sinks.context import query_id_of, require_columns
from penstock.spark.sinks.copy_text import copy_line, postgres_type
from penstock.spark.sinks.interrupts import interruptible
from penstock.spark.sinks.postgres_connections import ConnectionPool, Link, pool_of
from penstock.spark.sinks.postgres_target import MarkerKey, Target, claim_marker, read_marker, write_marker
from penstock.spark.sinks.postgres_writers import job_of, require_own, series_of, take_table
from penstock.spark.sinks.spool import spooled
from penstock.tasks.spec import TaskSpec, task_id

_CHUNK_BYTES = 2**18
_CANCEL_SECONDS = 2.0

log = logger(__name__)


def writer(
    frame: DataFrame, spec: TaskSpec, output: PostgresOutput, connections: Mapping[str, str]
) -> DataStreamWriter:
    """Writes `frame` to the table, made with the frame's columns when missing.

    Raises BrokenTask when the connection is not configured, a column has no Postgres type or the table does not take
    the rows; Unavailable when the database cannot be reached.
    """
    write = batch_writer(frame, spec, output, connections, None)
    return frame.writeStream.outputMode(spec.config.output_mode).foreachBatch(write)


def batch_writer(
    frame: DataFrame, spec: TaskSpec, output: PostgresOutput, connections: Mapping[str, str], side: str | None
) -> Callable[[DataFrame, int], None]:
    """Writes batches of `frame` in `foreachBatch`. `side`: the name of the side output. Raises as `writer`."""
    pool, target = _pool_and_target(frame, spec.config, output, connections)
    key = MarkerKey.of(spec.job, spec.index, spec.generation, side)
    sink = PostgresSink(pool, target, key, copy_line(frame.schema))
    sink.prepare()
    with pool.link() as link:
        _take_table(link, target, spec.job, output, side)
    return sink.write


def check(
    frame: DataFrame, job: str, config: JobConfig, output: PostgresOutput, connections: Mapping[str, str]
) -> None:
    """Has Postgres check all that `writer` does, in a transaction that is rolled back. Raises as it does."""
    check_target(*_pool_and_target(frame, config, output, connections), job, output)


def check_target(pool: ConnectionPool, target: Target, job: str, output: PostgresOutput) -> None:
    """What `check` asks of Postgres. Raises BrokenTask, and Unavailable."""
    with pool.link() as link, link.transaction(force_rollback=True):
        target.ensure(link, job)
        target.make_stage(link)
        target.check_insert(link)
        _take_table(link, target, job, output, None)


def _take_table(link: Link, target: Target, job: str, output: PostgresOutput, side: str | None) -> None:
    """Raises BrokenTask when the table is another job's, and this one does not say that both are meant."""
    table = target.quoted(link)
    if not output.allow_other_writers:
        require_own(link, table, job)
    if output.upsert_columns:
        take_table(link, table, series_of(job, side), shared=output.allow_other_writers)


def _pool_and_target(
    frame: DataFrame, config: JobConfig, output: PostgresOutput, connections: Mapping[str, str]
) -> tuple[ConnectionPool, Target]:
    url = connection_url(output, connections)
    _require_supported(frame, config, output)
    columns = {field.name: postgres_type(field.dataType, field.name) for field in frame.schema.fields}
    return pool_of(url), Target(output.table, columns, output.upsert_columns)


class PostgresSink:
    """Writes the batches of one task; `line` renders a row as COPY text."""

    def __init__(self, pool: ConnectionPool, target: Target, key: MarkerKey, line: Column) -> None:
        self._pool = pool
        self._target = target
        self._key = key
        self._line = line

    def prepare(self) -> None:
        """Makes the tables where missing and has Postgres check the statements, before the first batch."""
        with self._pool.link() as link:
            self._target.ensure(link, job_of(self._key.job))
            self._ensure_stage(link)
            self._target.check_insert(link)

    def write(self, frame: DataFrame, batch_id: int) -> None:
        """Writes a micro-batch unless the database has it.

        Raises Unavailable, BrokenTask or BrokenCheckpoint, which end the query; its next start repeats the batch.
        """
        batch = Marker(batch_id, query_id_of(frame))
        with self._link() as link:
            marker = read_marker(link, self._key)
        if is_written(marker, *batch):
            self._log_skip(batch)
            frame.write.format("noop").mode("overwrite").save()
            return
        with spooled(frame, self._line) as rows:
            self.store(rows, batch)

    def store(self, rows: IO[bytes], batch: Marker) -> bool:
        """Stores COPY text and marker in one transaction; False when another has stored the batch meanwhile."""
        with self._link() as link:
            self._ensure_stage(link)
            with link.transaction(), link.cursor() as cursor:
                with self._naming_the_column(rows), cursor.copy(self._target.copy_statement()) as copy:
                    while chunk := rows.read(_CHUNK_BYTES):
                        copy.write(chunk)
                is_late = is_written(claim_marker(link, self._key), *batch)
                if is_late:
                    self._log_skip(batch)
                else:
                    write_marker(link, self._key, batch, self._target.insert(link))
                self._target.empty_stage(link)
        return not is_late

    @contextmanager
    def _naming_the_column(self, rows: IO[bytes]) -> Iterator[None]:
        """Postgres names the line of a text with NUL, and not its column, which is what somebody has to mend."""
        try:
            yield
        except errors.CharacterNotInRepertoire as error:
            column = self._target.column_with_nul(rows)
            if column is None:
                raise
            raise BrokenTask(
                f"the column {column} of a row has the character NUL, which no text in Postgres can hold; replace it "
                f"in the query: replace({column}, chr(0), '')"
            ) from error

    @contextmanager
    def _link(self) -> Iterator[Link]:
        """A connection whose statement a stop of the task cancels."""
        task = task_id(job_of(self._key.job), self._key.task_index)
        with self._pool.link() as link, interruptible(task, partial(_cancel, link)):
            yield link

    def _ensure_stage(self, link: Link) -> None:
        if self._target.stage not in link.stages:
            self._target.make_stage(link)
            link.stages.add(self._target.stage)

    def _log_skip(self, batch: Marker) -> None:
        log.info("batch already written", **self._key._asdict(), table=self._target.table, batch_id=batch.batch_id)


def _cancel(link: Link) -> None:
    try:
        link.cancel_safe(timeout=_CANCEL_SECONDS)
    except psycopg.Error as error:
        log.warning("statement not cancelled", error=str(error))


def _require_supported(frame: DataFrame, config: JobConfig, output: PostgresOutput) -> None:
    require_columns(frame, output.upsert_columns, "output.upsert_columns")
    if config.output_mode == "complete" and not output.upsert_columns:
        raise BrokenTask("output_mode: complete repeats all rows in every batch, so output.upsert_columns is needed")
