"""Values that Spark reads from JSON or CSV without an error, and that are not what the record says. Pure.

Spark takes 128 to 255 for a TINYINT and makes it negative, makes a number that no DOUBLE or FLOAT holds infinite, and
takes any number for seconds: milliseconds since 1970 would be a date in the year 55840, which closes every window.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DateType,
    DoubleType,
    FloatType,
    MapType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

TEXT = "CAST(value AS STRING)"
"""The text of a record, in an expression of Spark."""
_SECONDS_OF_YEAR_1, _SECONDS_OF_YEAR_10000 = -62_135_596_800, 253_402_300_800


def misread(decoded: str, fields: StructType, *, is_json: bool) -> list[tuple[str, str]]:
    """The columns that may hold such a value, each with a condition in Spark's SQL. `decoded`: the struct's name."""
    found = []
    for field in fields.fields:
        path = (field.name,) if is_json else ()
        conditions = _conditions(f"{decoded}.{name_of(field.name)}", field.dataType, path, 0)
        if conditions:
            found.append((field.name, " OR ".join(conditions)))
    return found


def name_of(column: str) -> str:
    """A name in an expression of Spark."""
    return "`" + column.replace("`", "``") + "`"


def text_of(text: str) -> str:
    """A text in an expression of Spark."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def value_at(path: Sequence[str]) -> str:
    """The text of a JSON record's value at a path of names."""
    return f"get_json_object({TEXT}, {text_of('$' + ''.join(f'[{name!r}]' for name in path))})"


def _conditions(value: str, kind: DataType, path: tuple[str, ...], depth: int) -> list[str]:
    """`path`: of names in the JSON object; empty where there is none, as in arrays."""
    match kind:
        case TimestampType():
            begin, end = (f"timestamp_seconds({each})" for each in (_SECONDS_OF_YEAR_1, _SECONDS_OF_YEAR_10000))
            return [f"{value} < {begin} OR {value} >= {end}"]
        case DateType() | TimestampNTZType():
            return [f"NOT CAST({value} AS DATE) BETWEEN DATE'0001-01-01' AND DATE'9999-12-31'"]
        case FloatType() | DoubleType():
            return [f"abs({value}) = double('Infinity') AND NOT {TEXT} RLIKE 'I[Nn][Ff]'"]
        case ByteType() if path:
            return [f"{value} < 0 AND {value_at(path)} != CAST({value} AS STRING)"]
        case StructType():
            below = ((path and (*path, field.name), field) for field in kind.fields)
            parts = (_conditions(f"{value}.{name_of(field.name)}", field.dataType, at, depth) for at, field in below)
            return [condition for part in parts for condition in part]
        case ArrayType():
            return _of_elements(value, kind.elementType, depth)
        case MapType():
            return _of_elements(f"map_values({value})", kind.valueType, depth)
    return []


def _of_elements(values: str, kind: DataType, depth: int) -> list[str]:
    element = f"element_{depth}"
    conditions = _conditions(element, kind, (), depth + 1)
    return [f"exists({values}, {element} -> {' OR '.join(conditions)})"] if conditions else []
