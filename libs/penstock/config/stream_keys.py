"""Which changes of a stream move its rows to other key groups. Pure.

The key group of a row is a hash of its key columns' values, and the hash of 5 as an INT is not that of 5 as a BIGINT.
Tasks stand at different sections when a job stops. A row that moves then is read twice, or by nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.config.value_schema import SchemaError, ddl_columns

_OF_CSV = ("header", "csv")


def moved_by(before: Mapping[str, Any], after: Mapping[str, Any]) -> frozenset[str]:
    """The fields of a stream, as `value_schema`, that read its keys in another way after a change. `before`, `after`:
    the stream in JSON, absent fields as their defaults. None where a row is in the key group of its file."""
    if not before.get("key_columns") or before.get("key_groups", 1) == 1:
        return frozenset()
    fields = ("value_schema", *_OF_CSV) if before.get("format") == "csv" else ("value_schema",)
    return frozenset(field for field in fields if _reading(before, field) != _reading(after, field))


def _reading(stream: Mapping[str, Any], field: str) -> Any:
    if field == "header":
        return stream.get("header", True)
    if field == "csv":
        return stream.get("csv") or {}
    return _key_types(stream)


def _key_types(stream: Mapping[str, Any]) -> Any:
    """The types of the key columns, of csv with their places. The whole text where its columns are unknown."""
    text = stream.get("value_schema") or ""
    try:
        columns = ddl_columns(text)
    except SchemaError:
        columns = None
    if columns is None:
        return text
    keys = {name.lower() for name in stream["key_columns"]}
    has_places = stream.get("format") == "csv"
    return {
        column.name.lower(): (column.type, place if has_places else None)
        for place, column in enumerate(columns)
        if column.name.lower() in keys
    }
