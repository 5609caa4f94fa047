"""The column names of an input, read from its format and `value_schema`: enough to check names, not types."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache

from penstock.config.model import Input

KAFKA_COLUMNS = frozenset({"key", "value", "topic", "partition", "offset", "timestamp", "timestamptype", "headers"})
# Quoted text as a whole, brackets and commas alone, all else in runs.
DDL_TOKEN = re.compile(r"""`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[<>(),]|[^<>(),`'"]+|['"`]""")
FIRST_WORD = re.compile(r"\s*([^\s:]+)")


def column_names(source: Input) -> frozenset[str] | None:
    """The lower case names of the columns that a query sees; None when they cannot be told."""
    if source.format == "raw":
        return KAFKA_COLUMNS
    if source.value_schema is None:
        return None
    if source.format == "avro":
        return _avro_names(source.value_schema)
    return _ddl_names(source.value_schema)


def spelling_of(source: Input, column: str) -> str | None:
    """The name of a column as the DDL of a `json` or `csv` input writes it, whatever case `column` is in.

    None when there is no such column, or the names cannot be told.
    """
    if source.value_schema is None or source.format not in ("json", "csv"):
        return None
    wanted = column.strip("`").lower()
    return next((name for name in _ddl_spellings(source.value_schema) if name.lower() == wanted), None)


@lru_cache(maxsize=1024)
def _avro_names(text: str) -> frozenset[str] | None:
    schema = json.loads(text)
    fields = schema.get("fields") if isinstance(schema, dict) else None
    if not isinstance(fields, list):
        return None
    return frozenset(str(field["name"]).lower() for field in fields if isinstance(field, dict) and "name" in field)


def _ddl_names(text: str) -> frozenset[str] | None:
    if _is_struct(text):
        return None
    return frozenset(name.lower() for name in _ddl_spellings(text))


@lru_cache(maxsize=1024)
def _ddl_spellings(text: str) -> tuple[str, ...]:
    return () if _is_struct(text) else tuple(name for name in map(_field_name, _ddl_fields(text)) if name)


def _is_struct(text: str) -> bool:
    return re.match(r"\s*struct\s*<", text, re.IGNORECASE) is not None


def _ddl_fields(text: str) -> Iterator[list[str]]:
    """The tokens of each field of a DDL text: its commas outside brackets and quotes part them."""
    depth, field = 0, list[str]()
    for token in DDL_TOKEN.findall(text):
        depth += (token in "<(") - (token in ">)")
        if token == "," and depth == 0:
            yield field
            field = []
        elif token.strip():
            field.append(token)
    yield field


def _field_name(tokens: list[str]) -> str | None:
    if tokens and tokens[0].startswith("`"):
        return tokens[0][1:-1].replace("``", "`")
    first = FIRST_WORD.match(tokens[0]) if tokens else None
    return first.group(1) if first else None
