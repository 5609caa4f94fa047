"""An Avro schema whose names stand for more and more."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.config.avro_schema import MOST_FIELDS, avro_problem, fields_of


def nested(levels: int) -> Any:
    """A record that has the one before it twice, by its text and by its name: it doubles at each level."""
    schema: Any = {"type": "record", "name": "R0", "fields": [{"name": "x", "type": "int"}]}
    for level in range(1, levels + 1):
        fields = [{"name": "a", "type": schema}, {"name": "b", "type": f"R{level - 1}"}]
        schema = {"type": "record", "name": f"R{level}", "fields": fields}
    return schema


@pytest.mark.parametrize(
    ("schema", "count"),
    [
        ("long", 1),
        (["null", "long"], 2),
        (nested(0), 2),
        (nested(1), 5),
        (nested(2), 11),
        ({"type": "array", "items": {"type": "map", "values": "string"}}, 5),
        (
            {
                "type": "record",
                "name": "shop.Order",
                "fields": [
                    {"name": "a", "type": {"type": "enum", "name": "Kind", "symbols": ["A"]}},
                    {"name": "b", "type": "shop.Kind"},
                    {"name": "c", "type": ["null", "Order"]},
                ],
            },
            5,
        ),
    ],
)
def test_a_name_counts_as_what_it_stands_for(schema: Any, count: int) -> None:
    assert fields_of(schema) == count


def test_a_short_text_of_many_fields_is_refused() -> None:
    assert avro_problem("inputs.a.value_schema", json.dumps(nested(11))) is None
    problem = avro_problem("inputs.a.value_schema", json.dumps(nested(26)))
    assert problem is not None
    assert (problem.rule, f"{MOST_FIELDS:,}" in problem.detail) == ("avro_schema_too_large", True)


@pytest.mark.parametrize("text", ["{", "[" * 100_000])
def test_what_is_no_json_is_refused(text: str) -> None:
    problem = avro_problem("inputs.a.value_schema", text)
    assert problem is not None
    assert problem.rule == "avro_schema_json"
