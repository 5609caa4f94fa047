"""How the key columns of a stream are read: noted in its first section, and the same ever after.

`penstock.config.stream_keys` says why. What a table or the session of a task decides is known only here.
"""

from __future__ import annotations

import json
from functools import singledispatch

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from penstock.config.stream import Stream
from penstock.control.errors import BrokenTask

_TIMES = (DateType, TimestampType, TimestampNTZType)
_OF_TIMES = ("spark.sql.session.timeZone", "spark.sql.legacy.timeParserPolicy")
_BINARY = "UTF8_BINARY"
_RESERVED = "_penstock_"


def require_keys(field: str, stream: Stream, columns: DataFrame) -> None:
    """Raises BrokenTask where `columns`, those of a stream with key groups, have no such key."""
    known = {column.lower() for column in columns.columns}
    for column in sorted(known):
        if column.startswith(_RESERVED):
            raise BrokenTask(f"{field}: no column may begin with {_RESERVED}, as {column} does", rule="reserved_column")
    for column in stream.key_columns:
        if column.lower() not in known:
            detail = f"{field}.key_columns: {column} is not a column of the stream"
            raise BrokenTask(detail, rule="unknown_column")
    if not stream.key_columns:
        return
    for column, kind in _key_types(stream, columns).items():
        if any(isinstance(part, StringType) and part.collation != _BINARY for part in _parts(kind)):
            detail = (
                f"{field}.key_columns: the texts of {column} are equal by a collation, {kind.simpleString()}, and the "
                f"key group is that of the bytes. A key must be of {_BINARY}"
            )
            raise BrokenTask(detail, rule="key_is_binary")
    try:
        columns.select(F.hash(*stream.key_columns))
    except AnalysisException as error:
        detail = f"{field}.key_columns: Spark's hash takes no such column: {error.getMessage()}"
        raise BrokenTask(detail, rule="key_can_be_hashed") from error


def keys_note(session: SparkSession, stream: Stream, columns: DataFrame) -> str:
    """How a task reads the keys of a stream, as JSON: equal texts for equal key groups."""
    types = _key_types(stream, columns)
    note: dict[str, object] = {"types": {column: kind.simpleString() for column, kind in types.items()}}
    if stream.format == "csv":
        note["header"] = stream.header
        note["csv"] = stream.csv.model_dump(mode="json", exclude_defaults=True)
        names = [name.lower() for name in columns.columns]
        note["places"] = {column: names.index(column) for column in types}
    if any(isinstance(part, _TIMES) for kind in types.values() for part in _parts(kind)):
        note["session"] = {name: session.conf.get(name) for name in _OF_TIMES}
    return json.dumps(note, sort_keys=True)


def require_same_keys(field: str, noted: str | None, own: str) -> None:
    """Raises BrokenTask when the sections of a stream were made for keys that are read in another way."""
    if noted is None or noted == own:
        return
    detail = (
        f"{field}.key_columns: a task would read the keys as {own}, and the sections of the stream were made for keys "
        f"that are read as {noted}: rows would be in other key groups, and lost or read twice. Change it back, or make "
        "another job"
    )
    raise BrokenTask(detail, rule="same_keys")


def _key_types(stream: Stream, columns: DataFrame) -> dict[str, DataType]:
    """By key column, in lower case."""
    types = {found.name.lower(): found.dataType for found in columns.schema.fields}
    return {column.lower(): types[column.lower()] for column in stream.key_columns}


@singledispatch
def _parts(kind: DataType) -> list[DataType]:
    """A type and all those that it has in it."""
    return [kind]


@_parts.register
def _(kind: StructType) -> list[DataType]:
    return [kind, *(part for found in kind.fields for part in _parts(found.dataType))]


@_parts.register
def _(kind: ArrayType) -> list[DataType]:
    return [kind, *_parts(kind.elementType)]


@_parts.register
def _(kind: MapType) -> list[DataType]:
    return [kind, *_parts(kind.keyType), *_parts(kind.valueType)]
