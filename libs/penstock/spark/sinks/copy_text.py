"""Rows as the text of Postgres's COPY, rendered by Spark, so that no Python runs per row.

    Spark                        Postgres            note
    boolean, date                boolean, date
    byte, short | int | long     smallint | integer | bigint
    float | double               real | double precision   NaN and infinities kept
    decimal(p,s)                 numeric(p,s)
    string, char, varchar        text                Postgres has no NUL character: such a row fails
    binary                       bytea
    timestamp | timestamp_ntz    timestamptz | timestamp   microseconds
    array of one of the above    an array of it
    other array, struct, map, variant   jsonb       NaN and infinities become the strings "NaN", "Infinity"

COPY's text form (PostgreSQL manual, COPY, "Text Format"): a line a row, tabs between cells, `\\N` for null, backslash
before backslash, tab, newline and carriage return.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DecimalType, StructType

from penstock.control.errors import BrokenTask
from penstock.spark.sinks.context import column, json_text

# By Spark's names of types.
_SCALARS = {
    "boolean": "boolean",
    "byte": "smallint",
    "short": "smallint",
    "integer": "integer",
    "long": "bigint",
    "float": "real",
    "double": "double precision",
    "decimal": "numeric",
    "string": "text",
    "char": "text",
    "varchar": "text",
    "binary": "bytea",
    "date": "date",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
}
_JSON = {"array", "struct", "map", "variant"}
_ESCAPED = {"string", "char", "varchar", "binary", *_JSON}
_ESCAPES = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"))
# Offsets of years before standard time have seconds: five letters print them where they are.
_TIMESTAMP_FORMAT = "yyyy-MM-dd HH:mm:ss.SSSSSSxxxxx"


def postgres_type(kind: DataType, name: str) -> str:
    """The Postgres type for column `name` of Spark type `kind`. Raises BrokenTask when there is none."""
    scalar = _scalar(kind)
    if scalar is not None:
        return scalar
    if isinstance(kind, ArrayType):
        element = _scalar(kind.elementType)
        return "jsonb" if element is None else f"{element}[]"
    if kind.typeName() in _JSON:
        return "jsonb"
    raise BrokenTask(f"query: column {name} of type {kind.simpleString()} has no Postgres type; cast it in the query")


def copy_line(schema: StructType) -> Column:
    """A row as one string that ends in a newline: its line of COPY text."""
    cells = [_cell(column(field.name), field.dataType) for field in schema.fields]
    return F.concat(F.concat_ws("\t", *cells), F.lit("\n"))


def _scalar(kind: DataType) -> str | None:
    name = _SCALARS.get(kind.typeName())
    return f"numeric({kind.precision},{kind.scale})" if isinstance(kind, DecimalType) else name


def _cell(value: Column, kind: DataType) -> Column:
    text = _text(value, kind)
    if kind.typeName() in _ESCAPED:
        text = _replace_all(text, _ESCAPES)
    return F.coalesce(text, F.lit("\\N"))


def _text(value: Column, kind: DataType) -> Column:
    """The value as Postgres reads it, before COPY's escapes; null stays null."""
    if isinstance(kind, ArrayType) and _scalar(kind.elementType) is not None:
        return _array_text(value, kind.elementType)
    match kind.typeName():
        case "binary":
            return F.concat(F.lit("\\x"), F.hex(value))
        case "timestamp":
            return F.date_format(value, _TIMESTAMP_FORMAT)
        case name if name in _JSON:
            return json_text(value)
        case _:
            return value.cast("string")


def _array_text(value: Column, element: DataType) -> Column:
    """An array literal: `{"a","b",NULL}`."""

    def quoted(item: Column) -> Column:
        text = _replace_all(_text(item, element), (("\\", "\\\\"), ('"', '\\"')))
        return F.coalesce(F.concat(F.lit('"'), text, F.lit('"')), F.lit("NULL"))

    return F.concat(F.lit("{"), F.array_join(F.transform(value, quoted), ","), F.lit("}"))


def _replace_all(text: Column, pairs: tuple[tuple[str, str], ...]) -> Column:
    for old, new in pairs:
        text = F.replace(text, F.lit(old), F.lit(new))
    return text
