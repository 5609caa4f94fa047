"""Rules for the streams of a job. Each is a function from a `JobConfig` to the problems it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from penstock.config.keygroups import key_group_count
from penstock.config.model import DeltaOutput, FilesOutput, JobConfig
from penstock.config.outputs import of_each_output
from penstock.config.paths import place_of
from penstock.config.problems import Problem
from penstock.config.source_rules import starting_moment, watermark
from penstock.config.stream import Stream
from penstock.config.value_schema import SchemaError, ddl_names

_FILES = ("json", "csv", "parquet")
_OF_FORMATS = {
    "path": ("delta", *_FILES),
    "value_schema": _FILES,
    "header": ("csv",),
    "malformed": ("json", "csv"),
    "starting_position": ("delta",),
    "starting_version": ("delta",),
    "changed_rows": ("delta",),
    "max_files_per_batch": ("delta", *_FILES),
    "rows_per_second": ("rate",),
    "key_groups": ("delta", *_FILES),
    "key_columns": ("delta", *_FILES),
}
"""The formats that have a field, where not all have it."""
_REQUIRED = ("path", "value_schema", "rows_per_second")
_RATE_COLUMNS = ("timestamp", "value")
_OF_PATTERNS = frozenset("*?[]{}\\")


def streams_need_one_task(config: JobConfig) -> Iterator[Problem]:
    """Rows of a table or of files are in one key group each, unless the job says otherwise."""
    if config.streams and config.task_count > 1 and key_group_count(config) == 1:
        detail = (
            f"task_count is {config.task_count}, but the rows of a stream are in one key group: set key_groups of "
            "streams, and for a query that keeps state their key_columns. A job that runs cannot change them: create "
            "another one"
        )
        yield Problem("task_count", "streams_need_one_task", detail)


def _reads_something(config: JobConfig) -> Iterator[Problem]:
    if not config.inputs and not config.streams:
        yield Problem("inputs", "reads_an_input", "inputs: the job must have an input, or a stream (streams)")
    if config.inputs and config.streams:
        detail = "streams: a job reads either topics (inputs) or streams, not both"
        yield Problem("streams", "inputs_or_streams", detail)


def _limits_of_topics(config: JobConfig) -> Iterator[Problem]:
    if config.streams and config.max_records_per_trigger is not None:
        detail = "max_records_per_trigger is of topics: limit a stream by max_files_per_batch or max_bytes_per_trigger"
        yield Problem("max_records_per_trigger", "limit_of_topics", detail)


def _time_of_batches(config: JobConfig) -> Iterator[Problem]:
    """A stream's source takes a limit of files, which adapts to the time of batches, or one of bytes."""
    if not config.streams or config.max_batch_seconds is None:
        return
    if config.max_bytes_per_trigger is not None:
        detail = "max_batch_seconds has no effect on a stream with max_bytes_per_trigger: set one of them"
        yield Problem("max_batch_seconds", "one_limit_of_streams", detail)
    if any(stream.format == "rate" for stream in config.streams.values()):
        detail = "max_batch_seconds has no effect on a stream of rate, whose rows are made by the clock"
        yield Problem("max_batch_seconds", "one_limit_of_streams", detail)


def _streams(config: JobConfig) -> Iterator[Problem]:
    for name, stream in config.streams.items():
        field = f"streams.{name}"
        yield from _fields_of_format(field, stream)
        yield from _start(field, stream)
        yield from watermark(field, stream)
        yield from _columns(field, stream)
        yield from _one_folder(field, stream)
        if stream.key_columns and stream.key_groups == 1:
            detail = f"{field}.key_columns has no effect with one key group: set {field}.key_groups"
            yield Problem(f"{field}.key_columns", "key_columns_of_key_groups", detail)


def _fields_of_format(field: str, stream: Stream) -> Iterator[Problem]:
    for leaf, formats in _OF_FORMATS.items():
        value = getattr(stream, leaf)
        if stream.format in formats:
            if leaf in _REQUIRED and value is None:
                yield Problem(f"{field}.{leaf}", "stream_field_required", f"{field}: {stream.format} needs {leaf}")
        elif value != Stream.model_fields[leaf].default:
            detail = f"{field}.{leaf} is of {', '.join(formats)} only; the format is {stream.format}"
            yield Problem(f"{field}.{leaf}", "stream_field_of_format", detail)


def _start(field: str, stream: Stream) -> Iterator[Problem]:
    yield from starting_moment(field, stream, "version")
    if stream.starting_version is not None and stream.starting_position != "earliest":
        field = f"{field}.starting_position"
        yield Problem(field, "one_start", f"{field}: starting_version says where to begin already")


def _one_folder(field: str, stream: Stream) -> Iterator[Problem]:
    """The columns of partitions and the sections are below one folder."""
    if stream.key_groups > 1 and stream.format in _FILES and set(stream.path or "") & _OF_PATTERNS:
        detail = (
            f"{field}.path is a pattern of folders: with several key_groups it must be one folder, without "
            f"{' '.join(sorted(_OF_PATTERNS))}"
        )
        yield Problem(f"{field}.path", "one_folder", detail)


def _columns(field: str, stream: Stream) -> Iterator[Problem]:
    """Event time and keys are columns, as far as the columns are known without the table."""
    try:
        names = _RATE_COLUMNS if stream.format == "rate" else ddl_names(stream.value_schema or "{}")
    except SchemaError as error:
        detail = f"{field}.value_schema must be Spark DDL such as `id BIGINT, at TIMESTAMP`: {error}"
        yield Problem(f"{field}.value_schema", "value_schema_ddl", detail)
        return
    if names is None:
        return
    wanted = [("key_columns", column) for column in stream.key_columns]
    if stream.event_time_column is not None:
        wanted.append(("event_time_column", stream.event_time_column.strip("`")))
    known = {name.lower() for name in names}
    for leaf, column in wanted:
        if column.lower() not in known:
            detail = f"{field}.{leaf} names {column}, which is not a column of the stream"
            yield Problem(f"{field}.{leaf}", "unknown_column", detail)


def _own_folder(config: JobConfig) -> Iterator[Problem]:
    output = config.output
    if not isinstance(output, DeltaOutput | FilesOutput):
        return
    for name, stream in config.streams.items():
        if stream.path is not None and place_of(stream.path) == place_of(output.path):
            detail = f"output.path is the path of streams.{name}: the job would read its own output again, for ever"
            yield Problem("output.path", "loop", detail)


STREAM_RULES: tuple[Callable[[JobConfig], Iterator[Problem]], ...] = (
    _reads_something,
    streams_need_one_task,
    _limits_of_topics,
    _time_of_batches,
    _streams,
    of_each_output(_own_folder),
)
