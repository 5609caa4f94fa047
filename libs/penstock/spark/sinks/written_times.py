"""Times in JSON and CSV as `timestamp_format` of an output has them: numbers since 1970, or text of a pattern.

A pattern is an option of Spark's writers, so it holds at any depth. Numbers are columns of their own, made before. What
would be neither is refused: a local time (TIMESTAMP_NTZ) has no number and no zone, and Spark's writers have a form of
their own for the keys of maps. What a VARIANT holds is written as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, TimestampNTZType, TimestampType

from penstock.config.event_time import EPOCH_UNITS
from penstock.control.errors import BrokenTask
from penstock.spark.sinks.context import TIMESTAMP_OPTIONS, column

_FIELD = "output.timestamp_format"
_QUOTED = re.compile(r"'[^']*'")
_ZONES = frozenset("VzOXxZ")
_NUMBERS: dict[str, Callable[[Column], Column]] = {"epoch_seconds": F.unix_seconds, "epoch_millis": F.unix_millis}
_TIMES = (TimestampType, TimestampNTZType)


def timestamp_options(timestamp_format: str | None) -> dict[str, str]:
    """How Spark's writers of JSON and CSV have times. Pure."""
    if timestamp_format is None or timestamp_format in EPOCH_UNITS:
        return TIMESTAMP_OPTIONS
    return dict.fromkeys(TIMESTAMP_OPTIONS, timestamp_format)


def as_written(frame: DataFrame, timestamp_format: str | None) -> list[Column]:
    """The columns of a frame, each with its name, with their times as numbers where `timestamp_format` says so."""
    number = _NUMBERS.get(str(timestamp_format))
    if number is None:
        return [column(name) for name in frame.columns]
    return [_numbered(column(field.name), field.dataType, number).alias(field.name) for field in frame.schema]


def with_times(frame: DataFrame, timestamp_format: str | None) -> DataFrame:
    """The rows with these columns; the same frame where no time is a number."""
    return frame.select(*as_written(frame, timestamp_format)) if timestamp_format in _NUMBERS else frame


def require_writable_times(frame: DataFrame, timestamp_format: str | None, keys: Iterable[str] = ()) -> None:
    """Raises BrokenTask when `timestamp_format` is no pattern of Spark, or cannot write a time of the frame.

    `keys`: the columns by which readers look for a row. They would read another time, so look in another partition.
    """
    if timestamp_format is None:
        return
    problem = next(_problems(frame.schema, timestamp_format, frozenset(keys)), None)
    if problem is not None:
        raise BrokenTask(f"{_FIELD} is {timestamp_format}: {problem}", rule="writable_times")
    if timestamp_format not in EPOCH_UNITS:
        _require_pattern(frame.sparkSession, timestamp_format)


def _problems(row: StructType, timestamp_format: str, keys: frozenset[str]) -> Iterator[str]:
    for field in row:
        kinds = tuple(_inside(field.dataType))
        if field.name in keys and any(isinstance(each, _TIMES) for each in kinds):
            yield (
                f"the column {field.name}, a key, has times, which readers would not have as they are, so they would "
                "look for its rows elsewhere. Leave timestamp_format out, or make the key a text or a number"
            )
        if any(isinstance(each, MapType) and _has_times(each.keyType) for each in kinds):
            yield f"the column {field.name} has a map with times for keys, which it does not change: make them texts"
        if any(isinstance(each, TimestampNTZType) for each in kinds) and _is_of_moments(timestamp_format):
            yield f"the column {field.name} has local times (TIMESTAMP_NTZ), which have no zone: cast them to TIMESTAMP"


def _is_of_moments(timestamp_format: str) -> bool:
    return timestamp_format in EPOCH_UNITS or bool(_ZONES & set(_QUOTED.sub("", timestamp_format)))


def _inside(kind: DataType) -> Iterator[DataType]:
    """A type and all in it."""
    yield kind
    match kind:
        case ArrayType():
            yield from _inside(kind.elementType)
        case MapType():
            yield from _inside(kind.keyType)
            yield from _inside(kind.valueType)
        case StructType():
            for field in kind:
                yield from _inside(field.dataType)


def _has_times(kind: DataType) -> bool:
    return any(isinstance(each, _TIMES) for each in _inside(kind))


def _numbered(value: Column, kind: DataType, number: Callable[[Column], Column]) -> Column:
    if not _has_times(kind):
        return value
    match kind:
        case ArrayType():
            return F.transform(value, lambda each: _numbered(each, kind.elementType, number))
        case MapType():
            return F.transform_values(value, lambda _, each: _numbered(each, kind.valueType, number))
        case StructType():
            fields = [_numbered(value.getField(each.name), each.dataType, number).alias(each.name) for each in kind]
            return F.when(value.isNotNull(), F.struct(*fields))
    return number(value)


def _require_pattern(session: SparkSession, pattern: str) -> None:
    """Raises BrokenTask when Spark cannot write a time by the pattern."""
    written = F.to_json(F.struct("at"), timestamp_options(pattern))
    try:
        session.sql("SELECT TIMESTAMP '2026-11-28 19:30:00' AS at").select(written).collect()
    except PySparkException as error:
        why = str(error).splitlines()[0]
        raise BrokenTask(f"{_FIELD}: {pattern} is no pattern of Spark: {why}", rule="timestamp_pattern") from error
