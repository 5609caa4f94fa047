"""The streams of a job: Delta tables, folders of files and made rows, by Spark's and Delta's own sources. Of tables and
folders a wrapper around them adapts the number of files of a batch to how long batches take (`PacedSource`).

With one key group one task reads them. Their offsets are then those of the sources, and a new generation takes them
over as they are. With several, tasks read their key groups of the same sections (`penstock.spark.sections`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from delta.tables import DeltaTable
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from penstock.config.model import JobConfig
from penstock.config.starting import starting_millis
from penstock.config.stream import Stream
from penstock.control.errors import BrokenTask
from penstock.spark.balance import DEFAULT_BATCH_SECONDS
from penstock.spark.paths import require_allowed, require_files_allowed
from penstock.spark.sections import StreamPart
from penstock.spark.stream_keys import keys_note, require_keys, require_same_keys
from penstock.spark.tables import mode_of, reader_options

# Spark otherwise passes over files that are a week older than the newest, e.g. copied with their time.
_OLDEST_FILE = "36500d"
# `io.penstock.streams.SectionedSource.OWN`: whether a row is of the task's own key groups.
_OWN = "_penstock_own"


class BatchLimits(NamedTuple):
    """Of each stream of a job: the most bytes in a batch, or else how many seconds it should take."""

    most_bytes: int | None
    target_seconds: float | None


def read_streams(
    session: SparkSession, config: JobConfig, roots: Sequence[str], part: StreamPart | None = None
) -> dict[str, DataFrame]:
    """A streaming frame of each stream by its name. Raises what `read_stream` raises."""
    limits = batch_limits(config)
    return {name: read_stream(session, name, stream, limits, roots, part) for name, stream in config.streams.items()}


def read_stream(
    session: SparkSession,
    name: str,
    stream: Stream,
    limits: BatchLimits,
    roots: Sequence[str],
    part: StreamPart | None = None,
) -> DataFrame:
    """A streaming frame of one stream, with its watermark. `part`: what a task reads of it where it has several key
    groups; a frame without can be analysed, and not run.

    Raises BrokenTask when its path is missing, outside of `roots`, or no Delta table, when its key columns are not
    its columns, or when its sections were made for keys of other types; Spark's errors for a bad schema.
    """
    columns = None if stream.format == "rate" else _readable(session, name, stream, roots)
    grouped = stream.key_groups > 1
    reader = session.readStream.format(_source_of(stream, limits))
    if stream.value_schema is not None:
        reader = reader.schema(stream.value_schema)
    if stream.format == "rate":
        frame = reader.option("rowsPerSecond", str(stream.rows_per_second)).load()
    else:
        reader = reader.options(**stream_options(stream, limits.most_bytes), **paced_options(stream, limits))
        if grouped and columns is not None:
            reader = reader.options(**_keyed_options(session, name, stream, columns, part))
        frame = reader.load(stream.path)
    if stream.event_time_column is not None and stream.watermark_delay is not None:
        frame = frame.withWatermark(stream.event_time_column, stream.watermark_delay)
    return _own_rows(stream, frame) if grouped else frame


def batch_limits(config: JobConfig) -> BatchLimits:
    """The limits of a job with streams: of bytes where it says so, else by time. Pure."""
    if config.max_bytes_per_trigger is not None:
        return BatchLimits(config.max_bytes_per_trigger, None)
    seconds = config.max_batch_seconds
    return BatchLimits(None, seconds or max(DEFAULT_BATCH_SECONDS, config.trigger_interval_seconds))


def paced_options(stream: Stream, limits: BatchLimits) -> dict[str, str]:
    """The options by which the sources of `io.penstock.streams` adapt the files of a batch to its time. Pure."""
    if limits.target_seconds is None:
        return {}
    return {
        "penstock.format": stream.format,
        "penstock.targetBatchMillis": str(math.ceil(limits.target_seconds * 1000)),
    }


def _source_of(stream: Stream, limits: BatchLimits) -> str:
    if stream.key_groups > 1:
        return "penstock-stream"
    return stream.format if stream.format == "rate" or limits.target_seconds is None else "penstock-paced-stream"


def _keyed_options(
    session: SparkSession, name: str, stream: Stream, columns: DataFrame, part: StreamPart | None
) -> dict[str, str]:
    """The options by which the rows of the sections that a task reads are loaded, with `_OWN`. `columns`: those that
    the folder or table has."""
    field, options = f"streams.{name}", grouped_options(name, stream, part)
    require_keys(field, stream, columns)
    if part is not None and stream.key_columns:
        options["penstock.keys"] = own = keys_note(session, stream, columns)
        require_same_keys(field, part.keys.get(name), own)
    return options


def _own_rows(stream: Stream, frame: DataFrame) -> DataFrame:
    """The rows of the task's key groups. All rows of a section count for the watermark, so tasks at the same section
    have the same one. Spark would move a deterministic condition below the watermark."""
    own = F.col(_OWN)
    if stream.event_time_column is not None:
        own = F.when(F.spark_partition_id() >= 0, own).otherwise(F.lit(False))
    return frame.where(own).drop(_OWN)


def grouped_options(name: str, stream: Stream, part: StreamPart | None) -> dict[str, str]:
    """The options of `penstock-stream` beside those of the source that it wraps. Pure."""
    options: dict[str, str] = {"penstock.format": stream.format}
    if part is None:
        return options
    options |= {
        "penstock.name": part.log(name).name,
        "penstock.log": part.log_folder(name),
        "penstock.keyGroups": f"{part.key_groups.lo}-{part.key_groups.hi}",
        "penstock.keyGroupCount": str(stream.key_groups),
        "penstock.keyColumns": json.dumps(stream.key_columns),
    }
    stop = part.stop_section(name)
    return options if stop is None else options | {"penstock.stopAt": str(stop)}


def stream_options(stream: Stream, most_bytes: int | None) -> dict[str, str]:
    """The options of Spark's source for files or of Delta's. Pure."""
    limits = {"maxFilesPerTrigger": str(stream.max_files_per_batch)}
    if stream.format == "delta":
        if most_bytes is not None:
            limits["maxBytesPerTrigger"] = str(most_bytes)
        return {**limits, **_start(stream), "skipChangeCommits": str(stream.changed_rows == "skip").lower()}
    if most_bytes is not None and stream.key_groups > 1:
        limits["maxBytesPerTrigger"] = str(most_bytes)
    elif most_bytes is not None:
        # Spark takes one limit of files only.
        limits = {"maxBytesPerTrigger": str(most_bytes)}
    return {**limits, "maxFileAge": _OLDEST_FILE, **reader_options(stream, mode_of(stream))}


def _start(stream: Stream) -> dict[str, str]:
    """Where to begin without a checkpoint; the checkpoint then has the version."""
    if stream.starting_version is not None:
        return {"startingVersion": str(stream.starting_version)}
    millis = starting_millis(stream.starting_position)
    if millis is not None:
        moment = datetime.fromtimestamp(millis / 1000, UTC)
        return {"startingTimestamp": moment.strftime("%Y-%m-%d %H:%M:%S.%f")}
    return {"startingVersion": "latest"} if stream.starting_position == "latest" else {}


def _readable(session: SparkSession, name: str, stream: Stream, roots: Sequence[str]) -> DataFrame:
    """The columns of the folder or table, as its streaming source has them. Raises BrokenTask when it is missing, or
    outside of the roots."""
    field, path = f"streams.{name}.path", str(stream.path)
    require_allowed(field, path, roots)
    if stream.format == "delta":
        if not DeltaTable.isDeltaTable(session, path):
            raise BrokenTask(f"{field}: there is no Delta table at {path}", rule="path_exists")
        table = session.read.format("delta").load(path)
        require_files_allowed(field, table, roots)
        return table
    try:
        listed = session.read.format(stream.format).schema(str(stream.value_schema)).load(path)
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        raise BrokenTask(f"{field}: there is no folder {path}", rule="path_exists") from error
    require_files_allowed(field, listed, roots)
    return listed.select(*_declared(listed, str(stream.value_schema)))


def _declared(listed: DataFrame, schema: str) -> list[str]:
    """The columns that a schema declares, in its order. A folder that is listed has those of its partitions last, also
    some that nobody declared."""
    declared = StructType.fromDDL(schema)
    assert isinstance(declared, StructType)
    places = {name.lower(): place for place, name in enumerate(declared.names)}
    names = sorted((name for name in listed.columns if name.lower() in places), key=lambda name: places[name.lower()])
    return [f"`{name.replace('`', '``')}`" for name in names]
