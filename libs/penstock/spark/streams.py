"""The streams of a job: Delta tables, folders of files and made rows, by Spark's and Delta's own sources.

One task reads them. Their offsets are not those of key groups, so a new generation takes them over as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from delta.tables import DeltaTable
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from penstock.config.model import JobConfig
from penstock.config.starting import starting_millis
from penstock.config.stream import Stream
from penstock.control.errors import BrokenTask
from penstock.spark.paths import require_allowed, require_files_allowed
from penstock.spark.tables import mode_of, reader_options

# Spark otherwise passes over files that are a week older than the newest, e.g. copied with their time.
_OLDEST_FILE = "36500d"


def read_streams(session: SparkSession, config: JobConfig, roots: Sequence[str]) -> dict[str, DataFrame]:
    """A streaming frame of each stream by its name. Raises what `read_stream` raises."""
    return {
        name: read_stream(session, name, stream, config.max_bytes_per_trigger, roots)
        for name, stream in config.streams.items()
    }


def read_stream(
    session: SparkSession, name: str, stream: Stream, most_bytes: int | None, roots: Sequence[str]
) -> DataFrame:
    """A streaming frame of one stream, with its watermark.

    Raises BrokenTask when its path is missing, outside of `roots`, or no Delta table; Spark's errors for a bad schema.
    """
    reader = session.readStream.format(stream.format)
    if stream.format == "rate":
        frame = reader.option("rowsPerSecond", str(stream.rows_per_second)).load()
    else:
        _require_readable(session, name, stream, roots)
        if stream.value_schema is not None:
            reader = reader.schema(stream.value_schema)
        frame = reader.options(**stream_options(stream, most_bytes)).load(stream.path)
    if stream.event_time_column is not None and stream.watermark_delay is not None:
        frame = frame.withWatermark(stream.event_time_column, stream.watermark_delay)
    return frame


def stream_options(stream: Stream, most_bytes: int | None) -> dict[str, str]:
    """The options of Spark's source for files or of Delta's. Pure."""
    limits = {"maxFilesPerTrigger": str(stream.max_files_per_batch)}
    if stream.format == "delta":
        if most_bytes is not None:
            limits["maxBytesPerTrigger"] = str(most_bytes)
        return {**limits, **_start(stream), "skipChangeCommits": str(stream.changed_rows == "skip").lower()}
    if most_bytes is not None:
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


def _require_readable(session: SparkSession, name: str, stream: Stream, roots: Sequence[str]) -> None:
    field, path = f"streams.{name}.path", str(stream.path)
    require_allowed(field, path, roots)
    if stream.format == "delta":
        if not DeltaTable.isDeltaTable(session, path):
            raise BrokenTask(f"{field}: there is no Delta table at {path}", rule="path_exists")
        require_files_allowed(field, session.read.format("delta").load(path), roots)
        return
    try:
        listed = session.read.format(stream.format).schema(str(stream.value_schema)).load(path)
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        raise BrokenTask(f"{field}: there is no folder {path}", rule="path_exists") from error
    require_files_allowed(field, listed, roots)
