"""The whole configuration of a job: each rule has a case that breaks it and one that keeps it."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.config.model import DeltaOutput, JobConfig
from penstock.config.spark_settings import ALLOWED_VALUES
from penstock.config.tree import FIELD_TABLE
from penstock.config.validate import check_merged
from penstock.control.errors import InvalidConfig
from tests.support.config.jobs import FLIGHTS, job

AVRO = '{"type": "record", "name": "f", "fields": [{"name": "dest", "type": "string"}]}'
TIMED = {"event_time_column": "time", "watermark_delay": "10 minutes"}
RAW = {"topic": "raw", "key_groups": 8, "format": "raw"}
EACH, STARTS = ",".join(f"{group}:5" for group in range(8)), "inputs.flights.starting_position"
"""An offset of each key group of the input."""
MANY = {"topic_pattern": "orders-.*", "key_groups": 8, "format": "raw"}


def flights(**changes: Any) -> dict[str, Any]:
    """A job whose input `flights` is changed."""
    return job({"inputs": {"flights": changes}})


def writing(output: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A job with another output."""
    return {**job(changes), "output": output}


def refusal(config: dict[str, Any]) -> InvalidConfig:
    """The error for a configuration that must be refused."""
    with pytest.raises(InvalidConfig) as refused:
        check_merged(config)
    return refused.value


DELTA = {"type": "delta", "path": "file:/d"}
FILES = {"type": "files", "path": "file:/f"}
POSTGRES = {"type": "postgres", "table": "public.delays"}
EVENT_TIME = {"event_time_column": "time", "watermark_delay": "1 hour"}
FORMAT = "inputs.flights.event_time_format"
BROKEN = [
    # types and limits
    (job({"package": {"name": "p", "version": "../../etc"}}), "package.version", "string_pattern_mismatch"),
    (job({"query": None}), "query", "required"),
    (job({"inputs": {"flights": {"topic": None}}}), "inputs.flights.topic", "one_topic"),
    (job({"inputs": {"flights": None}}), "inputs", "reads_an_input"),
    (job({"task_count": "4"}), "task_count", "int_type"),
    (job({"nope": 1}), "nope", "unknown_field"),
    (job({"args": {"x": [1]}}), "args.x", "string_type"),
    (job({"args": {"not-a-name": 1}}), "args.not-a-name", "bad_key"),
    (job({"output": {"type": None}}), "output.type", "required"),
    (job({"output": {"type": "s3"}}), "output.type", "union_tag_invalid"),
    (job({"output": {"path": "file:/x"}}), "output.path", "unknown_field"),
    (job({"output": {"topic": 5}}), "output.topic", "string_type"),
    (job() | {"output": 5}, "output", "dict_type"),
    # topics by a pattern
    (flights(topic_pattern="a"), "inputs.flights.topic", "one_topic"),
    (flights(excluded_topics=["a"]), "inputs.flights.excluded_topics", "excluded_of_pattern"),
    (job({"inputs": {"m": MANY | {"excluded_topics": ["other"]}}}), "inputs.m.excluded_topics", "excluded_of_pattern"),
    (job({"inputs": {"m": MANY | {"topic_pattern": "(a+)+"}}}), "inputs.m.topic_pattern", "topic_pattern"),
    (job({"inputs": {"m": MANY | {"topic_pattern": ""}}}), "inputs.m.topic_pattern", "string_too_short"),
    (job({"inputs": {"m": MANY | {"topic_pattern": "fli.*"}}}), "inputs.m.topic_pattern", "topic_of_one_input"),
    (
        job({"inputs": {"m": MANY, "n": MANY | {"excluded_topics": ["orders-x"]}}}),
        "inputs.m.excluded_topics",
        "topic_of_one_input",
    ),
    (job({"inputs": {"m": MANY | {"topic_pattern": "cl.*"}}}), "output.topic", "loop"),
    (
        job({"inputs": {"m": MANY | {"topic_pattern": "bad.*"}}, "dead_letter_topic": "bad-ones"}),
        "dead_letter_topic",
        "dead_letters_not_read",
    ),
    # rules between fields
    (job({"query": {"sql": None}}), "query", "one_query"),
    (job({"query": {"python": "m:f"}, "package": {"name": "p"}}), "query", "one_query"),
    (job({"query": {"sql": None, "python": "m:f"}}), "package.name", "python_needs_package"),
    (job() | {"output": {"type": "foreach_batch", "python": "m:f"}}, "package.name", "python_needs_package"),
    (job() | {"output": {"type": "foreach_batch", "python": "m.f"}}, "output.python", "string_pattern_mismatch"),
    (job() | {"output": {"type": "foreach_batch"}}, "output.python", "required"),
    (job({"task_count": 4, "max_task_count": 3}), "task_count", "max_task_count"),
    (job({"task_count": 9}), "task_count", "key_groups"),
    (job({"key_group_bounds": []}), "key_group_bounds", "too_short"),
    (job({"key_group_bounds": [0]}), "key_group_bounds", "greater_than_equal"),
    (job({"task_count": 3, "key_group_bounds": [3, 3]}), "key_group_bounds", "ascending"),
    (job({"key_group_bounds": [3, 2]}), "key_group_bounds", "ascending"),
    (job({"task_count": 2, "key_group_bounds": [8]}), "key_group_bounds", "key_groups"),
    (job({"inputs": {"raw": RAW | {"key_groups": 4}}}), "inputs.raw.key_groups", "equal_key_groups"),
    (job({"tables": {"Flights": {"path": "file:/x"}}}), "tables.Flights", "name_taken"),
    (job({"inputs": {"FLIGHTS": RAW}}), "inputs.FLIGHTS", "name_taken"),
    (flights(event_time_column="time"), "inputs.flights.watermark_delay", "watermark_pair"),
    (flights(event_time_format="epoch_millis"), FORMAT, "event_time_format_needs_column"),
    (flights(**EVENT_TIME, event_time_format="epoch_micros"), FORMAT, "event_time_pattern"),
    (flights(**EVENT_TIME, event_time_format="HH:mm:ss"), FORMAT, "event_time_pattern"),
    (flights(**EVENT_TIME, event_time_format="yyyy-MM-dd hh:mm"), FORMAT, "event_time_pattern"),
    (flights(**EVENT_TIME, event_time_format="yyyy-MM-dd'T"), FORMAT, "event_time_pattern"),
    (
        job({"inputs": {"raw": RAW | EVENT_TIME | {"event_time_column": "timestamp", "event_time_format": "yyMMdd"}}}),
        "inputs.raw.event_time_format",
        "event_time_format_of_text",
    ),
    (
        flights(event_time_column="time", watermark_delay="999999999 days"),
        "inputs.flights.watermark_delay",
        "watermark_delay_limit",
    ),
    (
        flights(event_time_column="time", watermark_delay="87601 hours"),
        "inputs.flights.watermark_delay",
        "watermark_delay_limit",
    ),
    (flights(watermark_delay="10 minutes"), "inputs.flights.event_time_column", "watermark_pair"),
    (flights(value_schema=None), "inputs.flights.value_schema", "value_schema_required"),
    (flights(format="csv", value_schema=None), "inputs.flights.value_schema", "value_schema_required"),
    (flights(format="avro"), "inputs.flights.value_schema", "avro_schema_json"),
    (flights(value_schema="id INT, `_Penstock_plain` INT"), "inputs.flights.value_schema", "reserved_column"),
    (flights(cluster="EU"), "inputs.flights.cluster", "string_pattern_mismatch"),
    (flights(topic="t" * 200, cluster="c" * 49), "inputs.flights.cluster", "topic_length"),
    (
        flights(cluster="eu") | {"output": job()["output"] | {"topic": "flights", "cluster": "eu"}},
        "output.topic",
        "loop",
    ),
    (flights(schema_registry=True), "inputs.flights.schema_registry", "schema_registry_format"),
    (flights(format="raw"), "inputs.flights.value_schema", "value_schema_forbidden"),
    (flights(key_columns=None), "inputs.flights.key_columns", "key_columns_required"),
    (flights(key_columns=["origin"]), "inputs.flights.key_columns", "unknown_column"),
    (flights(metadata_columns={"value": "v"}), "inputs.flights.metadata_columns.value", "bad_key"),
    (flights(metadata_columns={"offset": "a b"}), "inputs.flights.metadata_columns.offset", "string_pattern_mismatch"),
    (flights(metadata_columns={"offset": "Dest"}), "inputs.flights.metadata_columns.offset", "column_taken"),
    (
        flights(metadata_columns={"offset": "at", "partition": "AT"}),
        "inputs.flights.metadata_columns.partition",
        "column_taken",
    ),
    (
        flights(event_time_column="sent", watermark_delay="1 hour", metadata_columns={"timestamp": "sent"}),
        "inputs.flights.event_time_column",
        "unknown_column",
    ),
    (
        job({"inputs": {"raw": RAW | {"metadata_columns": {"offset": "at"}}}}),
        "inputs.raw.metadata_columns",
        "metadata_of_decoded",
    ),
    (
        flights(event_time_column="at", watermark_delay="1 hour"),
        "inputs.flights.event_time_column",
        "unknown_column",
    ),
    (flights(format="avro", value_schema=AVRO, key_columns=["x"]), "inputs.flights.key_columns", "unknown_column"),
    (flights(balance_field="time"), "inputs.flights.balance_field", "string_pattern_mismatch"),
    (flights(balance_field="/time", format="csv"), "inputs.flights.balance_field", "balance_field_json"),
    (flights(balance_field="/time", balance="index"), "inputs.flights.balance_field", "balance_field_unused"),
    (flights(balance_field="/time", balance="off"), "inputs.flights.balance_field", "balance_field_unused"),
    (flights(balance="field"), "inputs.flights.balance_field", "balance_field_required"),
    (flights(balance="field", format="csv"), "inputs.flights.balance", "balance_needs_json"),
    (flights(idle_timeout_seconds=5.0), "inputs.flights.idle_timeout_seconds", "idle_timeout_needs_event_time"),
    (
        job({"inputs": {"flights": TIMED | {"idle_timeout_seconds": 5.0}, "raw": RAW}}),
        "inputs.raw.idle_timeout_seconds",
        "idle_timeout_of_all",
    ),
    (flights(starting_position="newest"), "inputs.flights.starting_position", "string_pattern_mismatch"),
    (flights(starting_position="2026-11-26T08:00"), "inputs.flights.starting_position", "string_pattern_mismatch"),
    (flights(starting_position="2026-02-30T08:00Z"), "inputs.flights.starting_position", "starting_moment"),
    (flights(starting_position="0:1,"), STARTS, "string_pattern_mismatch"),
    (flights(starting_position="0:-1"), STARTS, "string_pattern_mismatch"),
    (flights(starting_position="0:1"), STARTS, "offset_of_each_key_group"),
    (flights(starting_position=f"{EACH},8:0"), STARTS, "offset_of_each_key_group"),
    (flights(starting_position=f"{EACH},0:0"), STARTS, "offset_of_each_key_group"),
    (job({"inputs": {"m": MANY | {"starting_position": EACH}}}), "inputs.m.starting_position", "offsets_of_one_topic"),
    (job({"tables": {"planes": {"path": "file:/${day}"}}}), "tables.planes.path", "unknown_argument"),
    (job({"tables": {"fees": {"path": "file:/x", "header": False}}}), "tables.fees.header", "header_of_csv"),
    (
        job({"tables": {"fees": {"path": "file:/x", "format": "csv", "header": False}}}),
        "tables.fees.table_schema",
        "table_schema_required",
    ),
    (
        job({"tables": {"fees": {"path": "file:/x", "format": "delta", "table_schema": "k INT"}}}),
        "tables.fees.table_schema",
        "schema_of_delta",
    ),
    (job({"query": {"sql": "SELECT * FROM flights WHERE delay > :limit"}}), "args.limit", "unknown_argument"),
    (
        job({"spark_settings": {"spark.sql.shuffle.partitions": "8"}}),
        "spark_settings.spark.sql.shuffle.partitions",
        "spark_setting_not_allowed",
    ),
    (job({"output": {"topic": "flights"}}), "output.topic", "loop"),
    (job({"output": {"headers": "DEST", "key_columns": ["dest"]}}), "output.headers", "headers_are_no_key"),
    (job({"output": {"headers": "a b"}}), "output.headers", "string_pattern_mismatch"),
    (job({"dead_letter_topic": "flights"}), "dead_letter_topic", "dead_letters_not_read"),
    (writing(FILES, output_mode="update"), "output_mode", "append_only"),
    (writing(FILES, output_mode="complete"), "output_mode", "append_only"),
    (writing(DELTA, output_mode="update"), "output.upsert_columns", "upsert_columns_required"),
    (writing(DELTA | {"upsert_columns": ["dest"]}, output_mode="complete"), "output_mode", "append_or_update"),
    (writing(DELTA, output_mode="complete", task_count=2), "task_count", "complete_needs_one_task"),
    (writing(POSTGRES, output_mode="update"), "output.upsert_columns", "upsert_columns_required"),
    (writing(POSTGRES, output_mode="complete"), "output.upsert_columns", "upsert_columns_required"),
]
KEPT = [
    job(),
    job({"query": {"sql": None, "python": "m.n:f"}, "package": {"name": "p"}}),
    job({"task_count": 8}),
    job({"task_count": 4, "max_task_count": 4}),
    job({"inputs": {"raw": RAW}}),
    job({"inputs": {"m": MANY, "n": MANY}}),
    job({"inputs": {"m": MANY | {"topic_pattern": "^(?:fl|orders-).*$", "excluded_topics": ["flights"]}}}),
    job({"inputs": {"m": MANY | {"topic_pattern": ".*", "cluster": "eu"}}}),
    job({"inputs": {"m": MANY | {"topic_pattern": "cl.*"}}, "output": {"allow_loop": True}}),
    job({"tables": {"airports": {"path": "file:/x"}}}),
    job({"tables": {"fees": {"path": "file:/x", "format": "csv", "header": False, "table_schema": "n INT"}}}),
    flights(event_time_column="time", watermark_delay="10 minutes"),
    flights(event_time_column="TIME", watermark_delay="1 day"),
    flights(event_time_column="time", watermark_delay="3650 days"),
    flights(**TIMED, balance="field"),
    flights(balance="field", balance_field="/a/b"),
    flights(**TIMED, idle_timeout_seconds=30.0),
    flights(balance="sample"),
    flights(starting_position="latest"),
    flights(starting_position=EACH),
    flights(starting_position="2026-11-26T08:00:00.250+01:00"),
    flights(format="csv"),
    flights(format="avro", value_schema=AVRO),
    flights(format="avro", value_schema=AVRO, schema_registry=True),
    flights(format="raw", value_schema=None, key_columns=["key"]),
    flights(key_function="none", key_columns=None),
    job({"tables": {"planes": {"path": "file:/${day}"}}, "args": {"day": "2013-01-01"}}),
    job({"query": {"sql": "SELECT * FROM flights WHERE delay > :limit"}, "args": {"limit": 15}}),
    job({"spark_settings": {"spark.sql.session.timeZone": "UTC", "spark.sql.adaptive.enabled": "false"}}),
    job({"output": {"topic": "flights", "allow_loop": True}}),
    job({"output": {"topic": "flights", "cluster": "analytics"}}),
    job({"output": {"headers": "h"}}),
    flights(cluster="eu") | {"dead_letter_topic": "flights"},
    job({"dead_letter_topic": "flights-bad"}),
    job({"output_mode": "update"}),
    job({"output_mode": "complete"}),
    writing(FILES),
    writing(DELTA),
    writing(DELTA, output_mode="complete"),
    writing(DELTA | {"upsert_columns": ["dest"]}, output_mode="update", task_count=2),
    writing(POSTGRES),
    writing(POSTGRES | {"upsert_columns": ["dest"]}, output_mode="update"),
    writing(POSTGRES | {"upsert_columns": ["dest"]}, output_mode="complete"),
]


@pytest.mark.parametrize(("config", "field", "rule"), BROKEN)
def test_broken(config: dict[str, Any], field: str, rule: str) -> None:
    error = refusal(config)
    assert (error.field, error.rule) == (field, rule)
    assert error.extra["errors"][0]["field"] == field


@pytest.mark.parametrize("config", KEPT)
def test_kept(config: dict[str, Any]) -> None:
    checked = check_merged(config)
    assert check_merged(checked.model_dump(mode="json", exclude_none=True)) == checked


def test_what_is_dumped_may_be_checked_again() -> None:
    checked = check_merged(job())
    assert isinstance(checked, JobConfig)
    assert check_merged(checked.model_dump(mode="json")) == checked


def test_defaults_are_filled_in() -> None:
    checked = check_merged(writing(DELTA))
    assert isinstance(checked.output, DeltaOutput)
    assert (checked.task_count, checked.max_task_count, checked.slo.max_lag_seconds) == (1, 32, 90.0)
    assert checked.inputs["flights"].key_columns == tuple(FLIGHTS["key_columns"])


def test_all_problems_are_listed_once_a_field() -> None:
    error = refusal(job({"task_count": "4", "args": {"x": [1], "y": {}}, "output": {"topic": 5, "zz": 1}}))
    assert [found["field"] for found in error.extra["errors"]] == [
        "args.x",
        "args.y",
        "output.topic",
        "output.zz",
        "task_count",
    ]


def test_several_rules_are_listed_together() -> None:
    error = refusal(writing(FILES, output_mode="update", task_count=9, max_task_count=3))
    assert [found["rule"] for found in error.extra["errors"]] == ["max_task_count", "key_groups", "append_only"]
    assert error.detail.endswith("(and 2 more)")


def test_a_spark_setting_that_is_refused_names_where_the_others_are_listed() -> None:
    detail = refusal(job({"spark_settings": {"spark.executor.memory": "1g"}})).detail
    assert "`penstock fields spark_settings`" in detail
    documented = next(row.documentation for row in FIELD_TABLE if row.path == "spark_settings.*")
    assert all(name in documented for name in ALLOWED_VALUES)


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (flights(key_columns=["desst"]), "do you mean dest? There are: carrier, delay, dest, time"),
        (
            job({"query": {"sql": "SELECT * FROM flights WHERE delay > :limt"}, "args": {"limit": 3}}),
            "args has no limt; do you mean limit? There are: limit",
        ),
        (job({"tables": {"planes": {"path": "file:/${day}"}}}), "args has no day; there are none"),
    ],
)
def test_an_unknown_name_is_told_with_those_that_it_may_mean(config: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        check_merged(config)
    assert told in refused.value.detail
