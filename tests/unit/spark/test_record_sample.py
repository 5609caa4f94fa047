"""What a sample of records says against the columns of an input, without Kafka and Spark."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql.types import DoubleType, StringType, StructField, StructType, TimestampType

from penstock.config.model import Input
from penstock.spark.inputs.record_sample import (
    EVENT_TIME,
    FITS,
    KEYS,
    Finding,
    Sampled,
    fields_of,
    judge,
    with_few_types,
)

SOURCE: dict[str, Any] = {
    "topic": "t",
    "key_groups": 4,
    "value_schema": "userId STRING, `at` TIMESTAMP, v INT",
    "key_function": "kafka",
    "key_columns": ["userid"],
    "event_time_column": "`AT`",
    "watermark_delay": "1 hour",
}
JSON_FIELDS = ("userid", "time", "v")


def found(sampled: Sampled, **more: Any) -> list[Finding]:
    return list(judge("events", Input.model_validate(SOURCE | more), "t@eu", sampled))


@pytest.mark.parametrize(
    ("sampled", "rules"),
    [
        (Sampled(8, 0), []),
        (Sampled(8, 0, ("at",)), [EVENT_TIME]),
        (Sampled(8, 0, ("userId",)), [KEYS]),
        (Sampled(8, 0, ("userId", "at", "v")), [EVENT_TIME, KEYS, None]),
        (Sampled(12, 4, ("at",)), [EVENT_TIME]),
        (Sampled(12, 5, ("at",)), []),
        (Sampled(12, 6), []),
        (Sampled(12, 7), [FITS]),
        (Sampled(20, 11, ("v",)), [FITS, None]),
    ],
)
def test_only_what_makes_results_wrong_refuses(sampled: Sampled, rules: list[str | None]) -> None:
    """The event time, keys, and more malformed records than the limit; another column is a note. Of fewer than eight
    records that are whole nothing is said."""
    assert [each.rule for each in found(sampled)] == rules


def test_the_field_that_may_be_meant_is_named() -> None:
    time, key, note = found(Sampled(9, 0, ("userId", "at", "v"), fields=("userid", "at_time", "other", "v")))
    where = "in all 9 sampled records of the topic t@eu"
    assert time.field == "inputs.events.event_time_column"
    assert time.detail.startswith(f"inputs.events.event_time_column: at is null {where}, so no window would open")
    assert time.detail.endswith("(no record has this field; they have userid, at_time, other, v)")
    assert key.detail == (
        f"inputs.events.key_columns: userId is null {where} (no record has this field; they have userid)"
    )
    assert note.detail == f"inputs.events.value_schema: v is null {where}", "its field is there, and is null"


def test_many_columns_are_told_in_short() -> None:
    many = tuple(f"c{number}" for number in range(14))
    (note,) = found(Sampled(8, 0, many), key_columns=[], key_function="none")
    assert "c9 and 4 more are null" in note.detail


def test_the_limit_is_that_of_the_input_and_the_first_reason_is_told() -> None:
    spoilt = Sampled(10, 10, why="the value is not JSON")
    (problem,) = found(spoilt)
    assert problem.detail == (
        "inputs.events.value_schema: 10 of 10 sampled records of the topic t@eu are malformed, which is more than "
        "malformed_limit: the value is not JSON"
    )
    assert found(spoilt, malformed_limit=1) == []


def test_the_event_time_the_keys_and_the_first_columns_keep_their_types() -> None:
    """Of JSON and CSV; all other columns are texts."""
    names = [*(f"c{number}" for number in range(12)), "At", "userId"]
    schema = StructType([StructField(name, TimestampType() if name == "At" else DoubleType()) for name in names])
    few = with_few_types(Input.model_validate(SOURCE | {"value_schema": schema.json()}))
    kept = StructType.fromJson(json.loads(str(few.value_schema)))
    assert kept.names == names
    typed = [field.name for field in kept.fields if field.dataType != StringType()]
    assert typed == [*(f"c{number}" for number in range(6)), "At", "userId"]
    avro = Input.model_validate(SOURCE | {"format": "avro", "value_schema": "{}"})
    assert with_few_types(avro) is avro


def test_fields_are_those_at_the_top_the_most_frequent_first() -> None:
    values = [b'{"b": 1, "a": {"c": 1}}', b'{"a": null}', b"[1]", b"{oh", b"\xff", b"[" * 100_000, b'"x"']
    assert list(fields_of(values)) == ["a", "b"]
