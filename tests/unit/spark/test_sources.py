"""What the Kafka source is asked for, and arguments in table paths."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.config.event_time import delay_millis
from penstock.config.keygroups import KeyGroupRange
from penstock.config.model import Input
from penstock.control.errors import BrokenTask
from penstock.kafka.clusters import clusters_of
from penstock.spark.balance import balance_options, bounded, limit_options
from penstock.spark.settings import SparkSettings
from penstock.spark.sources import kafka_options
from penstock.spark.tables import substitute
from penstock.spark.triggers import trigger_interval
from tests.support.spark.hosts import job_config

SETTINGS = SparkSettings(checkpoint_root="/ck", kafka_bootstrap="broker:9092")


def test_a_task_asks_for_exactly_its_key_groups() -> None:
    source = Input(topic="flights", key_groups=8, starting_position="latest")
    options = kafka_options(source, KeyGroupRange(2, 5), SETTINGS, {})
    assert json.loads(options["assign"]) == {"flights": [2, 3, 4]}
    assert options["startingOffsets"] == "latest"
    assert options["failOnDataLoss"] == "true"
    assert options["kafka.isolation.level"] == "read_committed"
    assert options["kafka.bootstrap.servers"] == "broker:9092"
    assert "maxOffsetsPerTrigger" not in options


def test_of_a_pattern_a_task_reads_its_key_groups_of_each_topic() -> None:
    source = Input(topic_pattern="a.*", excluded_topics=("a.b",), key_groups=8, starting_position="latest")
    settings = SETTINGS.model_copy(update={"inputs_interval_seconds": 0.25})
    options = kafka_options(source, KeyGroupRange(2, 5), settings, {})
    assert options["keyGroups"] == "2-5/8"
    assert options["newTopicsMillis"] == "250"
    assert options["subscribePattern"] == r"(?!__|.*\.penstock\-marks$|a\.b$)(?:a.*)"
    assert "assign" not in options
    assert options["startingOffsets"] == "latest"


def test_a_bounded_source_of_a_pattern_reads_no_topic_that_came_later() -> None:
    source = Input(topic_pattern="a.*", cluster="eu", key_groups=8)
    stop_at = {"a.1@eu": {0: 5, 1: 6, 2: 7}, "a2@eu": {0: 1, 1: 2, 2: 3}, "a3": {0: 9, 1: 9, 2: 9}, "b@eu": {0: 1}}
    stopped = bounded({"subscribePattern": "a.*", "keyGroups": "1-3/8"}, source, KeyGroupRange(1, 3), stop_at)
    assert json.loads(stopped.pop("stopAtOffsets")) == {"a.1": {"1": 6, "2": 7}, "a2": {"1": 2, "2": 3}}
    assert stopped == {"subscribePattern": r"a\.1|a2", "keyGroups": "1-3/8"}


def test_a_moment_is_looked_up_by_the_source_and_no_record_after_it_means_the_end() -> None:
    source = Input(topic="flights", key_groups=8, starting_position="1970-01-01T01:00:01.5+01:00")
    options = kafka_options(source, KeyGroupRange(2, 5), SETTINGS, {})
    assert options["startingTimestamp"] == "1500"
    assert options["startingOffsetsByTimestampStrategy"] == "latest"
    assert "startingOffsets" not in options


def test_a_task_begins_at_the_offsets_of_its_key_groups() -> None:
    source = Input(topic="flights", key_groups=4, starting_position="3:9,0:1,2:0,1:5")
    options = kafka_options(source, KeyGroupRange(1, 3), SETTINGS, {})
    assert json.loads(options["startingOffsets"]) == {"flights": {"1": 5, "2": 0}}


def test_a_limit_is_passed_on() -> None:
    source = Input(topic="flights", key_groups=8)
    limits = {"maxOffsetsPerTrigger": "500", "maxBytesPerTrigger": "9000"}
    options = kafka_options(source, KeyGroupRange(0, 8), SETTINGS, limits)
    assert options | limits == options


def test_a_bounded_source_stops_at_its_offsets_and_its_watermark_does_not_follow_the_clock() -> None:
    source = Input(topic="flights", key_groups=8)
    options = {"balance": "auto", "idleTimeoutMillis": "1000", "targetBatchMillis": "10000"}
    stop_at = {"flights": {0: 5, 1: 6, 2: 7}}
    stopped = bounded(options, source, KeyGroupRange(1, 3), stop_at)
    assert stopped == {"balance": "auto", "stopAtOffsets": '{"flights": {"1": 6, "2": 7}}'}
    assert bounded(options, source, KeyGroupRange(1, 3), {"other": {0: 1}}) == {"balance": "auto"}
    marked = {"producerMarks": "flights.marks", "announce": "true"}
    until = bounded(marked, source, KeyGroupRange(1, 3), {"flights.marks": {0: 9}})
    assert until == {"producerMarks": "flights.marks", "producerMarksUntil": "9"}


def test_a_source_of_another_cluster_reads_there_and_takes_only_ends_of_its_own_topics() -> None:
    clusters = clusters_of({"eu": {"bootstrap": "eu:9092"}})
    settings = SETTINGS.model_copy(update={"kafka_clusters": clusters})
    source = Input(topic="flights", cluster="eu", key_groups=8)
    part = KeyGroupRange(1, 3)
    options = kafka_options(source, part, settings, {"producerMarks": "flights.penstock-marks"})
    assert (options["kafka.bootstrap.servers"], options["cluster"]) == ("eu:9092", "eu")
    assert json.loads(options["assign"]) == {"flights": [1, 2]}
    here = {"flights": {1: 5, 2: 6}, "flights.penstock-marks": {0: 3}}
    assert bounded(options, source, part, here) == options
    there = {"flights@eu": {1: 7, 2: 8}, "flights.penstock-marks@eu": {0: 4}}
    stopped = bounded(options, source, part, here | there)
    assert json.loads(stopped["stopAtOffsets"]) == {"flights": {"1": 7, "2": 8}}
    assert stopped["producerMarksUntil"] == "4"
    with pytest.raises(BrokenTask, match="there is no Kafka cluster eu in PENSTOCK_KAFKA_CLUSTERS; there are none"):
        kafka_options(source, part, SETTINGS, {})


@pytest.mark.parametrize(
    ("limit", "inputs", "expected"), [(None, 1, None), (900, 1, 900), (901, 2, 450), (1, 2, 1), (None, 2, None)]
)
def test_the_limit_is_shared_by_the_inputs(limit: int | None, inputs: int, expected: int | None) -> None:
    output = {"type": "files", "path": "/out"}
    config = job_config("t", 4, output, max_records_per_trigger=limit, max_bytes_per_trigger=limit)
    source = next(iter(config.inputs.values()))
    several = config.model_copy(update={"inputs": {f"i{number}": source for number in range(inputs)}})
    names = ("maxOffsetsPerTrigger", "maxBytesPerTrigger")
    limits = {name: value for name, value in limit_options(several).items() if name in names}
    assert limits == ({} if expected is None else dict.fromkeys(names, str(expected)))


@pytest.mark.parametrize(
    ("fields", "millis"),
    [
        pytest.param({}, "10000", id="by default"),
        pytest.param({"trigger_interval_seconds": 60.0}, "60000", id="a long interval"),
        pytest.param({"max_batch_seconds": 2.5, "trigger_interval_seconds": 60.0}, "2500", id="as set"),
        pytest.param({"max_records_per_trigger": 50}, None, id="an explicit limit wins"),
        pytest.param({"max_bytes_per_trigger": 50}, None, id="an explicit limit of bytes wins"),
        pytest.param({"max_records_per_trigger": 50, "max_batch_seconds": 1.0}, "1000", id="both are set"),
    ],
)
def test_a_batch_has_a_time_unless_it_has_other_limits(fields: dict[str, Any], millis: str | None) -> None:
    config = job_config("t", 4, {"type": "files", "path": "/out"}, **fields)
    assert limit_options(config).get("targetBatchMillis") == millis


BY_COLUMN = {"balance": "auto", "balanceField": "/At", "balanceFieldUnit": "seconds"}
TEN_MINUTES = {"skewEveryBatches": "10", "skewWarningMillis": "600000"}
EVENT_TIME = {"event_time_column": "at", "watermark_delay": "10 minutes"}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {"balance": "off"}),
        (EVENT_TIME, BY_COLUMN | TEN_MINUTES),
        (EVENT_TIME | {"event_time_column": "`AT`"}, BY_COLUMN | TEN_MINUTES),
        (EVENT_TIME | {"event_time_format": "epoch_millis"}, BY_COLUMN | {"balanceFieldFormat": "epoch_millis"}),
        (EVENT_TIME | {"balance_field": "/a/b"}, BY_COLUMN | TEN_MINUTES | {"balanceField": "/a/b"}),
        (EVENT_TIME | {"value_schema": "`a/~b` TIMESTAMP", "event_time_column": "a/~b"}, {"balanceField": "/a~1~0b"}),
        (EVENT_TIME | {"value_schema": "struct<at: timestamp>"}, {"balance": "auto"} | TEN_MINUTES),
        (EVENT_TIME | {"format": "csv"}, {"balance": "auto"} | TEN_MINUTES),
        (EVENT_TIME | {"balance": "sample"}, {"balance": "sample"} | TEN_MINUTES),
        (EVENT_TIME | {"balance": "field"}, BY_COLUMN | TEN_MINUTES | {"balance": "field"}),
        (EVENT_TIME | {"balance": "off"}, {"balance": "off"} | TEN_MINUTES),
        (EVENT_TIME | {"watermark_delay": "0 seconds"}, BY_COLUMN | {"skewEveryBatches": "10"}),
        ({"balance_field": "/at"}, {"balance": "auto", "balanceField": "/at", "skewEveryBatches": "10"}),
        ({"balance": "index"}, {"balance": "index", "skewEveryBatches": "10"}),
        (EVENT_TIME | {"idle_timeout_seconds": 1.5}, {"idleTimeoutMillis": "1500"}),
    ],
)
def test_balance(fields: dict[str, Any], expected: dict[str, str]) -> None:
    schema = {"value_schema": "n BIGINT, At TIMESTAMP"}
    options = balance_options(Input(topic="t", key_groups=4, **(schema | fields)))
    assert options | expected == options
    assert ("balanceField" in options) == ("balanceField" in expected or "idleTimeoutMillis" in expected)


@pytest.mark.parametrize(
    ("delay", "millis"), [("0 seconds", 0), ("1 second", 1000), ("10 minutes", 600_000), ("2 days", 172_800_000)]
)
def test_delays(delay: str, millis: int) -> None:
    assert delay_millis(delay) == millis


@pytest.mark.parametrize(
    ("text", "args", "expected"),
    [
        ("/data/planes", {}, "/data/planes"),
        ("/data/${day}/x", {"day": "2024-01-01"}, "/data/2024-01-01/x"),
        ("${a}${ b }", {"a": 1, "b": 2.5}, "12.5"),
        ("$day {day}", {"day": "x"}, "$day {day}"),
    ],
)
def test_arguments_in_paths(text: str, args: dict[str, Any], expected: str) -> None:
    assert substitute(text, args) == expected


def test_an_unknown_argument_is_named() -> None:
    with pytest.raises(BrokenTask, match="month"):
        substitute("/data/${month}", {"day": 1})


def test_intervals_are_close_to_what_was_asked_and_differ_by_task() -> None:
    intervals = [int(trigger_interval(5.0, f"job/{index}").split()[0]) for index in range(200)]
    assert all(4750 <= interval <= 5000 for interval in intervals)
    assert len(set(intervals)) > 100
    assert trigger_interval(5.0, "job/1") == trigger_interval(5.0, "job/1")
    assert trigger_interval(0.0, "job/1") == "0 milliseconds"
