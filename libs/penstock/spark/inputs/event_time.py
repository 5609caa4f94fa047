"""The event time of JSON and CSV records that have it as a number, or as text of a pattern (`event_time_format`). Pure.

Spark's parser reads it as the record has it, BIGINT or STRING, and the TIMESTAMP is made of that. What gives no time is
malformed: a number out of the years 1 to 9999, a text that is not of the pattern, a number with a fraction. The source
reads the same values for its horizon, by the same rules (`io.penstock.kafka.source.broker.FieldTimes`).
"""

from __future__ import annotations

from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from penstock.config.event_time import EPOCH_UNITS
from penstock.config.model import Input
from penstock.control.errors import BrokenTask
from penstock.spark.inputs.misread import END_SECOND, FIRST_SECOND, is_beyond, name_of, text_of


def as_written(source: Input, fields: StructType) -> StructType:
    """`fields` with the event time as the record has it; the same object without an `event_time_format`.

    Raises BrokenTask when `fields` do not have the event time as a TIMESTAMP.
    """
    if source.event_time_format is None:
        return fields
    name = event_time_name(source, fields)
    kind = LongType() if source.event_time_format in EPOCH_UNITS else StringType()
    return StructType([StructField(each.name, kind) if each.name == name else each for each in fields.fields])


def event_time_name(source: Input, fields: StructType) -> str:
    """The name of the event time's field as `fields` write it. Raises BrokenTask when it is not a TIMESTAMP there."""
    wanted = str(source.event_time_column).strip("`").lower()
    for field in fields.fields:
        if field.name.lower() == wanted and isinstance(field.dataType, TimestampType):
            return field.name
    column = source.event_time_column
    raise BrokenTask(f"value_schema: declare {column} as TIMESTAMP: event_time_format says how records write it")


def event_time(source: Input, written: str) -> str:
    """The time, as an expression of Spark; null where `written`, the value in the record, gives none."""
    match source.event_time_format:
        case "epoch_seconds":
            return _of_number("timestamp_seconds", written, FIRST_SECOND, END_SECOND)
        case "epoch_millis":
            return _of_number("timestamp_millis", written, FIRST_SECOND * 1000, END_SECOND * 1000)
    return f"try_to_timestamp({written}, {text_of(str(source.event_time_format))})"


def is_unread(source: Input, written: str) -> str:
    """Whether a record has an event time that cannot be read, as a condition."""
    time = event_time(source, written)
    return f"{written} IS NOT NULL AND coalesce({is_beyond(time)}, true)"


def unread_words(source: Input, fields: StructType, struct: str) -> str:
    """The case of a record whose event time cannot be read, and the words for it. `struct`: that of the values."""
    written = f"{struct}.{name_of(event_time_name(source, fields))}"
    told = text_of(f" is not {source.event_time_format}, in the years 1 to 9999")
    column = text_of(f"{source.event_time_column}: ")
    return f"WHEN {is_unread(source, written)} THEN concat({column}, CAST({written} AS STRING), {told})"


def _of_number(function: str, number: str, first: int, end: int) -> str:
    # Spark's functions fail where microseconds overflow.
    return f"CASE WHEN {number} >= {first} AND {number} < {end} THEN {function}({number}) END"
