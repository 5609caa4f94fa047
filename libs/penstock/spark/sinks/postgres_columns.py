"""Which columns of a table of the user's own keep the values of a query. Pure.

Postgres reads the text of a value as the column's type. It refuses what it cannot read, and what is too large. Some
texts it takes as another value, without a word: those columns are refused here, before the first row.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from penstock.control.errors import BrokenTask

_TEXTS = frozenset({"text", "character varying", "character", "citext"})
_JSON = frozenset({"jsonb", "json"})
_LOCAL, _INSTANT = "timestamp without time zone", "timestamp with time zone"
# An empty array, `{}`, is a JSON object; a moment in a `timestamp` loses its offset, and a local time or a day in a
# `timestamptz` gets that of the server; a `date` or `time` takes a part.
_KEEP = {
    "jsonb": _TEXTS | _JSON,
    "timestamptz": _TEXTS | {_INSTANT},
    "timestamp": _TEXTS | {_LOCAL},
    "date": _TEXTS | {_LOCAL, "date"},
}
_ADVICE = {
    "jsonb": "give the column the type jsonb",
    "timestamptz": "give the column the type timestamptz, or write a TIMESTAMP_NTZ, a local time, in the query",
    "timestamp": "give the column the type timestamp, or cast to TIMESTAMP, a moment, in the query",
    "date": "give the column the type date, or cast to TIMESTAMP, a moment, in the query",
}
_MICROSECONDS = 6
_DIGITS = {"smallint": 5, "integer": 10, "bigint": 19}
"""The most decimal digits of whole numbers."""
_KEPT_DIGITS = {"real": 6, "double precision": 15}
"""So many decimal digits come back from a floating-point number as they were."""
_NUMBERS = frozenset({*_DIGITS, *_KEPT_DIGITS, "numeric"})
_TYPE = re.compile(r"(?P<head>[^(]+)(\((?P<limits>[-0-9,]+)\))?(?P<tail>.*)")


class _Type(NamedTuple):
    """A type without its limits, and its limits: precision and scale of a `numeric`, digits of a second."""

    base: str
    limits: tuple[int, ...]


def require_column_type(table: str, name: str, kind: str, found: str) -> None:
    """Raises BrokenTask when a column of type `found` would read the text of a `kind` as another value."""
    advice = _advice(kind, found)
    if advice is not None:
        where = f"output.table: the column {name} of the table {table}"
        raise BrokenTask(f"{where} is {found}, and the query's would be {kind}: {advice}")


def _advice(kind: str, found: str) -> str | None:
    element, of = _parsed(kind.removesuffix("[]")), _parsed(found.removesuffix("[]"))
    is_array, takes_array = kind.endswith("[]"), found.endswith("[]")
    if is_array and not takes_array:
        return "write to_json of it in the query"
    if element.base in _NUMBERS:
        keeps = is_array == takes_array and _keeps_number(element, of)
        return None if keeps else f"give the column the type {kind}, or round it to {found} in the query"
    if element.base not in _KEEP:
        return None
    if of.base not in _KEEP[element.base] or is_array != takes_array:
        return _ADVICE[element.base]
    if element.base.startswith("timestamp") and of.base in (_LOCAL, _INSTANT) and min((*of.limits, 6)) < _MICROSECONDS:
        return f"it rounds to parts of a second: give the column the type {kind}"
    return None


def _keeps_number(kind: _Type, found: _Type) -> bool:
    if found.base in _DIGITS:
        return True
    if found.base == "numeric":
        return not found.limits or (kind.base not in _KEPT_DIGITS and _scale(kind) <= _scale(found))
    if found.base in _KEPT_DIGITS:
        if kind.base in _KEPT_DIGITS:
            return _KEPT_DIGITS[kind.base] <= _KEPT_DIGITS[found.base]
        return _digits(kind) <= _KEPT_DIGITS[found.base]
    return found.base in _TEXTS | _JSON


def _digits(kind: _Type) -> int:
    return kind.limits[0] if kind.base == "numeric" else _DIGITS[kind.base]


def _scale(kind: _Type) -> int:
    return kind.limits[1] if kind.base == "numeric" else 0


def _parsed(name: str) -> _Type:
    """A type as `format_type` writes it, such as `timestamp(3) without time zone`."""
    parts = _TYPE.fullmatch(name)
    if parts is None:
        return _Type(name, ())
    limits = (parts["limits"] or "").split(",")
    return _Type(parts["head"] + parts["tail"], tuple(int(limit) for limit in limits if limit))
