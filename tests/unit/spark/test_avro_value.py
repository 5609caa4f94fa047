"""The schema of an output of Avro, made from Spark's."""

from __future__ import annotations

import pytest

from penstock.spark.sinks.avro_value import record_name, with_null_defaults


def test_fields_that_may_be_null_have_the_default_null_at_any_depth() -> None:
    inner = {"type": "record", "name": "inner", "fields": [{"name": "a", "type": ["int", "null"]}]}
    schema = {
        "type": "record",
        "name": "row",
        "fields": [{"name": "id", "type": "long"}, {"name": "of", "type": {"type": "array", "items": [inner, "null"]}}],
    }
    found = with_null_defaults(schema)
    assert found["fields"][0] == {"name": "id", "type": "long"}
    kept, null = found["fields"][1]["type"]["items"]
    assert (kept["fields"], null) == ([{"name": "a", "type": ["null", "int"], "default": None}], "null")


@pytest.mark.parametrize(("topic", "name"), [("a.b-c", "a_b_c"), ("1st", "_1st"), ("words", "words")])
def test_a_record_has_the_topics_name_in_letters_of_avro(topic: str, name: str) -> None:
    assert record_name(topic) == name
