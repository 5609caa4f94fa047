"""Rows to a Delta table, exactly once: appended by Delta's own streaming sink, or merged by key (`delta_merge`).

Delta records (id of the query in its checkpoint, batch id) in the transaction that adds a batch's files, and skips a
batch that it has. Tasks of a job append to one table: blind appends do not conflict. The table is created before the
query starts, so that the first batches of several tasks do not race to create it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import takewhile

from delta.tables import DeltaTable, DeltaTableBuilder
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import NullType, StructType
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential_jitter

from penstock.config.model import DeltaOutput, JobConfig
from penstock.control.errors import BrokenTask, Unavailable
from penstock.control.texts import first_few
from penstock.spark.files import Files, files_of
from penstock.spark.sinks.context import query_id_of, require_columns, require_output_mode, require_writable
from penstock.spark.sinks.delta_merge import DeltaMerge, require_key
from penstock.spark.sinks.delta_writers import notes_of, require_free, take_table
from penstock.tasks.spec import TaskSpec

_NO_NAME = re.compile(r"[ ,;{}()\n\t=]")
_PARTITION_HEADING = "# Partition Information"
_ATTEMPTS = 6
# What Delta says, depending on the moment, of a folder in which another task has begun a table whose first commit is
# not there yet: the task tries again, ever more slowly. (Of a folder with other files only it says
# DELTA_MISSING_DELTA_TABLE.)
_BEING_CREATED = {"DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION", "DELTA_TABLE_NOT_FOUND"}
_LOG = "_delta_log"
_FOLDER_TAKEN = "folder_taken"
"""As of a write whose path is that of another job."""


def writer(frame: DataFrame, spec: TaskSpec, output: DeltaOutput) -> DataStreamWriter:
    """Writes `frame` to the table at `output.path`, made with the frame's columns when missing.

    Raises BrokenTask when the table has other columns or partitions, or the output mode cannot be served.
    """
    if output.upsert_columns:
        write = batch_writer(frame, spec, output)
        return frame.writeStream.outputMode(spec.config.output_mode).foreachBatch(write)
    _require_supported(frame, spec.config, output)
    ensure_table(frame, spec.job, spec.config, output)
    stream = (
        frame.writeStream.outputMode(spec.config.output_mode)
        .format("delta")
        .option("path", output.path)
        .option("mergeSchema", "false")
    )
    return stream.partitionBy(*output.partition_columns) if output.partition_columns else stream


def batch_writer(frame: DataFrame, spec: TaskSpec, output: DeltaOutput) -> Callable[[DataFrame, int], None]:
    """Writes batches of `frame` in `foreachBatch`, as `writer` does its stream: the same note in the table says that it
    has a batch. Raises as `writer`."""
    _require_supported(frame, spec.config, output)
    ensure_table(frame, spec.job, spec.config, output)
    if output.upsert_columns:
        return DeltaMerge(spec.task_id, output).write
    mode = "overwrite" if spec.config.output_mode == "complete" else "append"

    def write(rows: DataFrame, batch_id: int) -> None:
        into = (
            rows.write.format("delta").mode(mode).option("mergeSchema", "false").partitionBy(*output.partition_columns)
        )
        into.option("txnAppId", query_id_of(rows)).option("txnVersion", str(batch_id)).save(output.path)

    return write


def ensure_table(frame: DataFrame, job: str, config: JobConfig, output: DeltaOutput) -> None:
    """Creates the table unless it is there, and checks it; safe when several tasks do it at once.

    Raises BrokenTask when the table's columns or partitions are not the query's, or other jobs write to it that it
    cannot be shared with; Unavailable when creating it fails again and again because of others.
    """
    session = frame.sparkSession
    if not DeltaTable.isDeltaTable(session, output.path):
        _require_storable(frame)
        _create(session, frame.schema.toNullable(), output, notes_of(job, config, output))
    _require_fit(frame, output)
    take_table(session, job, config, output)


def check(frame: DataFrame, job: str, config: JobConfig, output: DeltaOutput) -> None:
    """Checks what `writer` does, and creates nothing. Raises BrokenTask."""
    _require_supported(frame, config, output)
    require_writable(frame.sparkSession, f"{output.path}/{_LOG}")
    if DeltaTable.isDeltaTable(frame.sparkSession, output.path):
        _require_fit(frame, output)
        require_free(frame.sparkSession, job, config, output)
    else:
        _require_no_other_files(frame.sparkSession, output.path)
        _require_storable(frame)


def _require_fit(frame: DataFrame, output: DeltaOutput) -> None:
    session = frame.sparkSession
    problems = schema_problems(_table_at(session, output.path).toDF().schema, frame.schema)
    if problems:
        raise BrokenTask(f"output.path: the Delta table does not fit the query: {'; '.join(problems)}")
    _require_partitions(session, output)


def _table_at(session: SparkSession, path: str) -> DeltaTable:
    """Raises BrokenTask when the path is in the folder of another table: Delta takes that for the table, and then says
    that it is none."""
    try:
        return DeltaTable.forPath(session, path)
    except AnalysisException as error:
        around = table_around(files_of(path, session), path)
        if around is None:
            raise
        told = (
            f"output.path: {path} is in the folder of the Delta table {around}, and the files below that belong to it. "
            "Choose a path that is in no other table"
        )
        raise BrokenTask(told, rule=_FOLDER_TAKEN) from error


def table_around(files: Files, path: str) -> str | None:
    """The nearest folder above a path that is a Delta table; None where there is none."""
    start = path.rstrip("/")
    while (above := start.rpartition("/")[0]) and not above.endswith(("/", ":")):
        if files.names(f"{above}/{_LOG}"):
            return above
        start = above
    return None


def _require_no_other_files(session: SparkSession, path: str) -> None:
    """Raises BrokenTask when a new table would have files beside it that are not its own."""
    names = sorted(files_of(path, session).names(path))
    if names and _LOG not in names:
        told = (
            f"output.path: {path} is no Delta table and has other files and folders: {first_few(names)}. A new table "
            "needs a folder of its own: choose another path"
        )
        raise BrokenTask(told, rule=_FOLDER_TAKEN)


def schema_problems(table: StructType, rows: StructType) -> list[str]:
    """Why `rows` cannot be appended to `table`, in words; empty when they can. Nullability is left out."""
    types = {field.name.lower(): field.dataType for field in table.toNullable().fields}
    problems = []
    for field in rows.toNullable().fields:
        have = types.get(field.name.lower())
        if have is None:
            problems.append(f"the table has no column {field.name}")
        elif have != field.dataType:
            problems.append(
                f"column {field.name} is {have.simpleString()} in the table and "
                f"{field.dataType.simpleString()} in the query"
            )
    given = {field.name.lower() for field in rows.fields}
    missing = [field.name for field in table.fields if not field.nullable and field.name.lower() not in given]
    return problems + [f"the query does not give {name}, which the table requires" for name in missing]


def _require_supported(frame: DataFrame, config: JobConfig, output: DeltaOutput) -> None:
    require_output_mode(config, ("append", "update") if output.upsert_columns else ("append", "complete"))
    require_columns(frame, output.partition_columns, "output.partition_columns")
    require_key(frame, output)
    if config.output_mode == "complete" and config.task_count > 1:
        raise BrokenTask("output_mode: complete replaces the whole Delta table, so the job must have one task")


def _require_storable(frame: DataFrame) -> None:
    """Raises BrokenTask for columns that no new table takes. Delta says so when the table is made, and then speaks of
    its column mapping."""
    unnamed = [name for name in frame.columns if _NO_NAME.search(name)]
    if unnamed:
        told = f"output.path: a Delta table takes no column called {', '.join(unnamed)}: give it an alias (AS name)"
        raise BrokenTask(told, rule="column_name")
    untyped = [field.name for field in frame.schema.fields if isinstance(field.dataType, NullType)]
    if untyped:
        told = f"output.path: {', '.join(untyped)} has no type in a Delta table: cast it, such as CAST(NULL AS STRING)"
        raise BrokenTask(told, rule="column_type")


def _create(session: SparkSession, schema: StructType, output: DeltaOutput, notes: dict[str, str]) -> None:
    """Several tasks may create the table at once: the losers see that it is there now, or soon."""
    builder = DeltaTable.createIfNotExists(session).location(output.path).addColumns(schema)
    for name, value in notes.items():
        builder = builder.property(name, value)
    builder = builder.partitionedBy(*output.partition_columns)
    for attempt in Retrying(
        retry=retry_if_exception_type(Unavailable),
        stop=stop_after_attempt(_ATTEMPTS),
        wait=wait_exponential_jitter(multiplier=0.1, max=2.0, jitter=0.2),
        reraise=True,
    ):
        with attempt:
            _try_to_create(session, builder, output.path)


def _try_to_create(session: SparkSession, builder: DeltaTableBuilder, path: str) -> None:
    try:
        builder.execute()
    except PySparkException as error:
        if DeltaTable.isDeltaTable(session, path):
            return
        if isinstance(error, AnalysisException) and error.getCondition() not in _BEING_CREATED:
            _require_no_other_files(session, path)
            raise BrokenTask(f"output.path: the Delta table cannot be created: {error}") from error
        raise Unavailable(f"the Delta table {path} cannot be created now: {error}") from error


def _require_partitions(session: SparkSession, output: DeltaOutput) -> None:
    have = _partition_columns(session, output.path)
    if have != output.partition_columns:
        raise BrokenTask(
            f"output.partition_columns: the Delta table is partitioned by {list(have)}, "
            f"the job by {list(output.partition_columns)}"
        )


def _partition_columns(session: SparkSession, path: str) -> tuple[str, ...]:
    """By DESCRIBE, which needs no Spark job; `DeltaTable.detail` computes the table's whole state first."""
    quoted = path.replace("`", "``")
    names = [row["col_name"] for row in session.sql(f"DESCRIBE TABLE delta.`{quoted}`").collect()]
    if _PARTITION_HEADING not in names:
        return ()
    after_heading = names[names.index(_PARTITION_HEADING) + 2 :]
    return tuple(takewhile(lambda name: name and not name.startswith("#"), after_heading))
