"""JSON Schema of a leaf to a few words for people: `integer, 1 to 32`, `one of json, csv`, `list of text`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NAMES = {"string": "text", "integer": "integer", "number": "number", "boolean": "true or false", "null": "nothing"}


def readable_type(schema: Mapping[str, Any], definitions: Mapping[str, Any] | None = None) -> str:
    """The type that a JSON Schema describes, with its limits, in words. `definitions`: those of its `$defs`."""
    known = schema.get("$defs", {}) if definitions is None else definitions
    if "$ref" in schema:
        return readable_type(known[schema["$ref"].rpartition("/")[2]], known)
    choices = _choices(schema)
    if choices:
        return choices[0] if len(choices) == 1 else f"one of {', '.join(choices)}"
    if "anyOf" in schema:
        members = [readable_type(member, known) for member in schema["anyOf"]]
        return " or ".join(member for member in dict.fromkeys(members) if member != NAMES["null"])
    if schema.get("type") == "array":
        return f"list of {readable_type(schema['items'], known)}"
    return NAMES[schema["type"]] + _limits(schema)


def _choices(schema: Mapping[str, Any]) -> list[str]:
    if "anyOf" in schema and all("const" in member or "enum" in member for member in schema["anyOf"]):
        return [choice for member in schema["anyOf"] for choice in _choices(member)]
    return [str(schema["const"])] if "const" in schema else [str(choice) for choice in schema.get("enum", ())]


def _limits(schema: Mapping[str, Any]) -> str:
    if "pattern" in schema:
        return f" matching {schema['pattern']}"
    if "maxLength" in schema:
        return f", at most {schema['maxLength']} characters"
    if "exclusiveMinimum" in schema:
        return f", more than {schema['exclusiveMinimum']}, at most {schema['maximum']}"
    return f", {schema['minimum']} to {schema['maximum']}" if "minimum" in schema else ""
