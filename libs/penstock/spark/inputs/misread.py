"""Values that Spark reads from JSON or CSV without an error, and that are not what the record says. Pure.

Spark leaves out all commas of a text that is to be a DECIMAL: `12,50` would be 1250. Only those between groups of three
digits separate thousands.

Spark takes 128 to 255 for a TINYINT and makes it negative, and makes a number that no DOUBLE or FLOAT holds infinite.
It takes any number for seconds: milliseconds since 1970 would be a date in the year 55840, which closes every window.
Microseconds overflow and become any date.

Values that may be such (`Suspect`) are compared with their own texts. For these Spark parses the record once more, with
STRING for the types in question: it then takes the same field of two of one name, and no name has to be quoted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    MapType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

TEXT = "CAST(value AS STRING)"
"""The text of a record, in an expression of Spark."""
_DAY = 86_400
# With a day on each side for time zones.
FIRST_SECOND, END_SECOND = -62_135_596_800 - _DAY, 253_402_300_800 + _DAY
# More seconds than this overflow in microseconds; a shorter number is found by the date that it becomes.
LONG_NUMBER = "a number of thirteen digits"
"""The guard that is no condition in SQL: `io.penstock.sources.LongNumbers` of the record."""
_COMMA = "[0-9],[0-9,]"
_THOUSANDS = r"^\s*[-+]?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]*)?([eE][-+]?[0-9]+)?\s*$"
_SECONDS_OF_A_YEAR = 31_556_952
_INFINITIES = "'Infinity', '+Infinity', '-Infinity', 'INF', '+INF', '-INF', 'Inf', '-Inf'"
_BARE_INFINITY = r"\s*[-+]?(Infinity|INF)\b"


Guards = tuple[str, ...]


class Suspect(NamedTuple):
    """A column, and conditions in Spark's SQL. One of `guards` is true where it may have such a value, by what Spark
    made of it. `proof`: that its text, in the struct `texts`, is not that value."""

    column: str
    kind: DataType
    guards: Guards
    proof: str


class Misread(NamedTuple):
    """Conditions in Spark's SQL. `guards`: whether a value may be misread; so may one with `LONG_NUMBER`, where
    `has_long_numbers`. `proof`: whether one is, which is asked only then, since it costs more."""

    guards: str
    has_long_numbers: bool
    proof: str


class Parser(NamedTuple):
    """A function of Spark that reads a text, and the options by which the query's column was read, too."""

    function: str
    options: Mapping[str, str] = {}

    def call(self, schema: str) -> str:
        options = ", ".join(text_of(each) for option in self.options.items() for each in option)
        return f"{self.function}({TEXT}, {text_of(schema)}{f', map({options})' if options else ''})"


class _Place(NamedTuple):
    """A value, its text, and what stands before it in a JSON record: a regular expression."""

    value: str
    text: str
    before: str


def suspects(decoded: str, fields: StructType) -> list[Suspect]:
    """The columns that may have such values. `decoded`: the struct's name."""
    found = []
    for field in fields.fields:
        conditions = _conditions(_field(_Place(decoded, "texts", ""), field), field.dataType, 0)
        if conditions is not None:
            found.append(Suspect(field.name, field.dataType, *conditions))
    return found


def misread(found: Sequence[Suspect], fields: StructType, parser: Parser) -> Misread | None:
    """Whether one of the columns is misread; None without columns."""
    if not found:
        return None
    guards = [guard for each in found for guard in each.guards]
    proofs = _any(f"coalesce({each.proof}, false)" for each in found)
    return Misread(
        _any(guard for guard in guards if guard != LONG_NUMBER),
        LONG_NUMBER in guards,
        f"exists({texts(fields, parser)}, texts -> {proofs})",
    )


def explanation(found: Sequence[Suspect], fields: StructType, parser: Parser) -> str | None:
    """What is wrong with a record that has such values, in words; an empty text for others, None without columns."""
    if not found:
        return None
    times = [each for each in found if isinstance(each.kind, TimestampType)]
    parts = [f"CASE WHEN {each.proof} THEN {_time_told(each.column)} END" for each in times]
    decimals = [each for each in found if isinstance(each.kind, DecimalType)]
    parts += [f"CASE WHEN {each.proof} THEN {_comma_told(each.column)} END" for each in decimals]
    others = [each for each in found if each not in times and each not in decimals]
    columns = ", ".join(f"CASE WHEN {each.proof} THEN {text_of(each.column)} END" for each in others)
    if columns:
        of_others = "'out of the range of their types, or of the years 1 to 9999: '"
        parts.append(f"nullif(concat({of_others}, concat_ws(', ', {columns})), {of_others})")
    return f"transform({texts(fields, parser)}, texts -> concat_ws('; ', {', '.join(parts)}))[0]"


def _comma_told(column: str) -> str:
    told = text_of(" has a comma that separates no thousands")
    return f"concat({text_of(column)}, ': ', texts.{name_of(column)}, {told})"


def _time_told(column: str) -> str:
    text = f"texts.{name_of(column)}"
    number = f"TRY_CAST({text} AS DECIMAL(38, 0))"
    name = text_of(column)
    return (
        f"CASE WHEN {number} IS NULL THEN concat({name}, ': ', {text}, ' is out of the years 1 to 9999') "
        f"ELSE concat({name}, ': ', {text}, ' would be the year ', floor({number} / {_SECONDS_OF_A_YEAR}) + 1970, "
        f"'. A TIMESTAMP takes whole seconds: declare BIGINT and use ', "
        f"CASE WHEN abs({number}) < 1e14 THEN concat('timestamp_millis(', {name}, ')') "
        f"WHEN abs({number}) < 1e17 THEN concat('timestamp_micros(', {name}, ')') "
        f"ELSE concat('timestamp_micros(', {name}, ' div 1000)') END) END"
    )


def texts(fields: StructType, parser: Parser) -> str:
    """An array with the struct of texts as its only element, so that a lambda can name it: then it is made once."""
    return f"array({parser.call(_columns(fields))})"


def name_of(column: str) -> str:
    """A name in an expression of Spark."""
    return "`" + column.replace("`", "``") + "`"


def text_of(text: str) -> str:
    """A text in an expression of Spark."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def is_beyond(value: str) -> str:
    """Whether a TIMESTAMP is in none of the years 1 to 9999, in no time zone."""
    return f"({value} < timestamp_seconds({FIRST_SECOND}) OR {value} >= timestamp_seconds({END_SECOND}))"


def _columns(fields: StructType) -> str:
    return ", ".join(f"{name_of(field.name)} {_texts_of(field.dataType)}" for field in fields.fields)


def _texts_of(kind: DataType) -> str:
    match kind:
        case StructType():
            inner = ", ".join(f"{name_of(field.name)}: {_texts_of(field.dataType)}" for field in kind.fields)
            return f"STRUCT<{inner}>"
        case ArrayType():
            return f"ARRAY<{_texts_of(kind.elementType)}>"
        case MapType():
            return f"MAP<STRING, {_texts_of(kind.valueType)}>"
    return "STRING"


def _any(conditions: Iterable[str]) -> str:
    return " OR ".join(f"({condition})" for condition in dict.fromkeys(conditions))


def _field(place: _Place, field: StructField) -> _Place:
    name = name_of(field.name)
    before = rf"\"{re.escape(field.name)}\"\s*:"
    return _Place(f"{place.value}.{name}", f"{place.text}.{name}", before)


def _conditions(place: _Place, kind: DataType, depth: int) -> tuple[Guards, str] | None:
    """The guards and the proof; None where nothing can be wrong."""
    value, text, before = place
    match kind:
        case TimestampType():
            in_band = f"TRY_CAST({text} AS DECIMAL(38, 0)) BETWEEN {FIRST_SECOND} AND {END_SECOND - 1}"
            is_wrong = f"{is_beyond(value)} OR {value} IS NOT NULL AND NOT coalesce({in_band}, {text} IS NOT NULL)"
            return (is_beyond(value), LONG_NUMBER), is_wrong
        case DateType() | TimestampNTZType():
            outside = f"NOT CAST({value} AS DATE) BETWEEN DATE'0001-01-01' AND DATE'9999-12-31'"
            return (outside,), outside
        case FloatType() | DoubleType():
            # Without quotes, `Infinity` and numbers that are too large become the same text.
            bare = f"{text} LIKE '\"%' AND try_parse_json({TEXT}) IS NULL"
            named = f"{bare} AND {TEXT} RLIKE {text_of(before + _BARE_INFINITY)}"
            is_infinite = f"abs({value}) = double('Infinity')"
            return (is_infinite,), f"{is_infinite} AND NOT coalesce({text} IN ({_INFINITIES}) OR {named}, false)"
        case DecimalType():
            has_comma = f"{TEXT} RLIKE {text_of(_COMMA)}"
            return (has_comma,), f"{text} LIKE '%,%' AND NOT {text} RLIKE {text_of(_THOUSANDS)}"
        case ByteType():
            in_band = f"TRY_CAST({text} AS DECIMAL(38, 0)) BETWEEN -128 AND 127"
            return (f"{value} < 0",), f"{value} < 0 AND NOT coalesce({in_band}, false)"
        case StructType():
            parts = [_conditions(_field(place, field), field.dataType, depth) for field in kind.fields]
            found = [part for part in parts if part is not None]
            guards = tuple(guard for part in found for guard in part[0])
            return (guards, _any(part[1] for part in found)) if found else None
        case ArrayType():
            return _of_elements(place, kind.elementType, depth)
        case MapType():
            values = _Place(f"map_values({value})", f"map_values({text})", before)
            return _of_elements(values, kind.valueType, depth)
    return None


def _of_elements(place: _Place, kind: DataType, depth: int) -> tuple[Guards, str] | None:
    element = _Place(f"element_{depth}", f"text_{depth}", r"[:,\[]")
    found = _conditions(element, kind, depth + 1)
    if found is None:
        return None
    guards = tuple(
        f"exists({place.value}, {element.value} -> {guard})" if element.value in guard else guard for guard in found[0]
    )
    proofs = f"zip_with({place.value}, {place.text}, ({element.value}, {element.text}) -> {found[1]})"
    return guards, f"exists({proofs}, is_wrong -> is_wrong)"
