"""Rows to files by Spark's own file sink: exactly once for readers that honour its log.

The sink keeps a log, `_spark_metadata`, in its folder; only files that the log names count, and a batch that the log
has is skipped. Two queries cannot share a log, and a batch id says nothing outside its checkpoint, so each task of
each generation has a folder of its own: `<path>/g<generation>/task-<index>`. `read_all` reads them together.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import reduce
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock.config.model import FilesOutput, JobConfig
from penstock.control.errors import BrokenTask, NotFound
from penstock.spark.checkpoint import METADATA, last_offset, new_id, parsed, task_checkpoint
from penstock.spark.csv_options import options_of
from penstock.spark.files import Files, files_of
from penstock.spark.hadoop import CheckpointWriter
from penstock.spark.sinks.context import JSON_OPTIONS, require_output_mode, require_writable
from penstock.spark.sinks.folder_owner import QUERY, bind, claim, lost, require_own
from penstock.spark.sinks.written_times import require_writable_times, timestamp_options, with_times
from penstock.tasks.spec import TaskSpec

BOUND = "BOUND-"
"""In a checkpoint: begins the name of a file which says that the checkpoint has a folder of files. The id of the query
follows, which no other checkpoint has."""
_READ_OPTIONS = {"parquet": {}, "json": {}, "csv": {"header": "true"}}


def writer(frame: DataFrame, spec: TaskSpec, output: FilesOutput) -> DataStreamWriter:
    """Writes `frame` below the task's own folder.

    Raises BrokenTask unless the output mode is append, and for times that `timestamp_format` cannot write.
    """
    require_output_mode(spec.config, ("append",))
    require_writable_times(frame, output.timestamp_format)
    return (
        with_times(frame, output.timestamp_format)
        .writeStream.outputMode("append")
        .format(output.format)
        .options(**write_options(output))
        .option("path", task_folder(output.path, spec.generation, spec.index))
    )


def batch_writer(frame: DataFrame, spec: TaskSpec, output: FilesOutput) -> Callable[[DataFrame, int], None]:
    """Writes batches of `frame` in `foreachBatch`, as `writer` does its stream: by the sink of Spark, which skips a
    batch that its log has. Raises as it does."""
    require_output_mode(spec.config, ("append",))
    require_writable_times(frame, output.timestamp_format)
    folder = task_folder(output.path, spec.generation, spec.index)

    def write(rows: DataFrame, batch_id: int) -> None:
        _sink(rows.sparkSession, folder, output).addBatch(batch_id, with_times(rows, output.timestamp_format)._jdf)

    return write


def _sink(session: SparkSession, folder: str, output: FilesOutput) -> Any:
    jvm: Any = session._jvm
    to_scala = jvm.org.apache.spark.api.python.PythonUtils
    options = to_scala.toScalaMap({**write_options(output), "path": folder})
    sinks = jvm.org.apache.spark.sql.execution.streaming.sinks
    no_partitions = to_scala.toSeq([])
    return sinks.FileStreamSink(session._jsparkSession, folder, _format(jvm, output), no_partitions, options)


def _format(jvm: Any, output: FilesOutput) -> Any:
    """Spark's own object for the format of files."""
    sources = jvm.org.apache.spark.sql.execution.datasources
    formats = {
        "parquet": sources.parquet.ParquetFileFormat,
        "json": sources.json.JsonFileFormat,
        "csv": sources.csv.CSVFileFormat,
    }
    return formats[output.format]()


def write_options(output: FilesOutput) -> dict[str, str]:
    """How Spark writes the files."""
    if output.format == "parquet":
        return {}
    times = timestamp_options(output.timestamp_format)
    return {**JSON_OPTIONS, **times} if output.format == "json" else {**times, **_csv_options(output)}


def _csv_options(output: FilesOutput) -> dict[str, str]:
    return {"header": str(output.header).lower(), **options_of(output.csv)}


def claim_output(session: SparkSession, root: str, job: str, output: FilesOutput, first_generation: int) -> None:
    """Makes the output's folder the job's. `root`: of all checkpoints. Raises what `folder_owner.claim` raises."""
    claim(files_of(output.path, session), files_of(root, session), root, output, job, first_generation)


def bind_output(session: SparkSession, root: str, spec: TaskSpec, output: FilesOutput, *, starting: bool) -> Any:
    """Before a query starts in `session`, whose checkpoint is claimed: the task's folder is its checkpoint's.

    Returns what looks before each commit whether the folder is still there (Java's `KeptFile`). Raises BrokenTask when
    the folder is another job's or another checkpoint's, and for a task that is `starting` also when it was deleted. A
    task that only ends its last batch may end it in a new folder, so that its job can be given another path.
    """
    files, checkpoints = files_of(output.path, session), files_of(root, session)
    checkpoint = task_checkpoint(root, spec.job, spec.generation, spec.index)
    folder = task_folder(output.path, spec.generation, spec.index)
    query_id = _query_id(session, checkpoints, checkpoint)
    note = f"{BOUND}{query_id}"
    is_lost = note in checkpoints.names(checkpoint) and QUERY not in files.names(folder)
    if is_lost and not starting:
        return None
    if is_lost:
        raise BrokenTask(lost(folder))
    require_own(files, checkpoints, root, output, spec.job, spec.generation)
    bind(files, folder, query_id, last_offset(checkpoint, checkpoints))
    if note not in checkpoints.names(checkpoint):
        checkpoints.write(f"{checkpoint}/{note}", b"")
    jvm, context = session._jvm, session.sparkContext._jsc
    assert jvm is not None
    assert context is not None
    return jvm.io.penstock.checkpoint.KeptFile(f"{folder}/{QUERY}", context.hadoopConfiguration(), lost(folder))


def check(frame: DataFrame, config: JobConfig, output: FilesOutput) -> None:
    """Checks the output mode, the right to write, and with Spark that the format takes the types of the columns.

    Raises BrokenTask, and Spark's error for a type.
    """
    require_output_mode(config, ("append",))
    require_writable_times(frame, output.timestamp_format)
    require_writable(frame.sparkSession, output.path)
    jvm: Any = frame.sparkSession._jvm
    sources = jvm.org.apache.spark.sql.execution.datasources
    sources.DataSourceUtils.verifySchema(_format(jvm, output), frame._jdf.schema(), False)


def task_folder(path: str, generation: int, index: int) -> str:
    """The folder of one task of one generation."""
    return f"{path.rstrip('/')}/g{generation}/task-{index}"


def read_all(session: SparkSession, path: str, file_format: str = "parquet", schema: str | None = None) -> DataFrame:
    """All rows that the tasks of all generations wrote below `path`, each row once.

    Each folder is read through its own log, so files of batches that never committed are left out. `schema` is Spark
    DDL; without it it is taken from the files. Raises NotFound when there is nothing to read.
    """
    frames = [_read(session, folder, file_format, schema) for folder in task_folders(session, path)]
    found = [frame for frame in frames if frame is not None]
    if not found:
        raise NotFound(f"no task has written files below {path}")
    return reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), found)


def task_folders(session: SparkSession, path: str) -> list[str]:
    """The folders of all tasks of all generations below `path` that have a log, in order of their names."""
    context = session.sparkContext
    assert context._jvm is not None
    assert context._jsc is not None
    root = context._jvm.org.apache.hadoop.fs.Path(path)
    file_system = root.getFileSystem(context._jsc.hadoopConfiguration())
    pattern = context._jvm.org.apache.hadoop.fs.Path(root, "g*/task-*/_spark_metadata")
    found: list[JavaObject] = list(file_system.globStatus(pattern) or [])
    return sorted(status.getPath().getParent().toString() for status in found)


def _query_id(session: SparkSession, files: Files, checkpoint: str) -> str:
    """The id of a checkpoint, which gets one before its first query."""
    if METADATA not in files.names(checkpoint):
        CheckpointWriter(session, checkpoint).write(METADATA, new_id())
    return parsed(f"{checkpoint}/{METADATA}", lambda text: str(json.loads(text)["id"]), files)


def _read(session: SparkSession, folder: str, file_format: str, schema: str | None) -> DataFrame | None:
    """None when the log names no file yet, so that there is no schema to take."""
    reader = session.read.format(file_format).options(**_READ_OPTIONS[file_format])
    if schema is not None:
        reader = reader.schema(schema)
    try:
        return reader.load(folder)
    except AnalysisException as error:
        if error.getCondition() == "UNABLE_TO_INFER_SCHEMA":
            return None
        raise
