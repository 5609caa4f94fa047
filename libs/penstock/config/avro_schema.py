"""What is wrong with the text of an Avro schema, as far as that is seen without Avro. Pure."""

from __future__ import annotations

import json
from typing import Any

from penstock.config.problems import Problem

MOST_FIELDS = 10_000
"""So many fields may a schema have where each name stands for what it names. Spark writes them all out."""


def avro_problem(field: str, text: str) -> Problem | None:
    """Why the text of the field cannot be a schema. Rules: `avro_schema_json`, `avro_schema_too_large`."""
    try:
        is_too_large = fields_of(json.loads(text)) > MOST_FIELDS
    except (ValueError, RecursionError):
        return Problem(field, "avro_schema_json", f"{field}: an Avro schema must be JSON")
    if is_too_large:
        detail = f"{field}: an Avro schema may have {MOST_FIELDS:,} fields, counting a record at each use of its name"
        return Problem(field, "avro_schema_too_large", detail)
    return None


def fields_of(schema: Any) -> int:
    """How many types a schema is made of, with those of a named type at each place where the name stands.

    Raises RecursionError for one that is nested too deeply.
    """
    return _count(schema, "", {})


def _count(schema: Any, namespace: str, named: dict[str, int]) -> int:
    if isinstance(schema, str):
        return named.get(f"{namespace}.{schema}", named.get(schema, 1))
    if isinstance(schema, list):
        return sum(_count(each, namespace, named) for each in schema)
    if not isinstance(schema, dict):
        return 1
    if schema.get("type") in ("record", "error", "enum", "fixed"):
        return _count_named(schema, namespace, named)
    return 1 + sum(_count(schema[inner], namespace, named) for inner in ("type", "items", "values") if inner in schema)


def _count_named(schema: dict[str, Any], namespace: str, named: dict[str, int]) -> int:
    name = str(schema.get("name"))
    space = name.rpartition(".")[0] if "." in name else str(schema.get("namespace", namespace))
    full = f"{space}.{name.rpartition('.')[2]}" if space else name
    fields = schema.get("fields")
    named[full] = 1
    if isinstance(fields, list):
        named[full] += sum(_count(each.get("type"), space, named) for each in fields if isinstance(each, dict))
    return named[full]
