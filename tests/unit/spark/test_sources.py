"""What the Kafka source is asked for, and arguments in table paths."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.config.model import Input
from penstock.control.errors import BrokenTask
from penstock.spark.settings import SparkSettings
from penstock.spark.sources import kafka_options, records_per_input, substitute
from penstock.spark.task import trigger_interval
from penstock.tasks.keygroups import KeyGroupRange
from tests.support.spark import job_config

SETTINGS = SparkSettings(checkpoint_root="/ck", kafka_bootstrap="broker:9092")


def test_a_task_asks_for_exactly_its_key_groups() -> None:
    source = Input(topic="flights", key_groups=8, starting_position="latest")
    options = kafka_options(source, KeyGroupRange(2, 5), None, SETTINGS)
    assert json.loads(options["assign"]) == {"flights": [2, 3, 4]}
    assert options["startingOffsets"] == "latest"
    assert options["failOnDataLoss"] == "true"
    assert options["kafka.isolation.level"] == "read_committed"
    assert options["kafka.bootstrap.servers"] == "broker:9092"
    assert "maxOffsetsPerTrigger" not in options


def test_a_limit_is_passed_on() -> None:
    source = Input(topic="flights", key_groups=8)
    assert kafka_options(source, KeyGroupRange(0, 8), 500, SETTINGS)["maxOffsetsPerTrigger"] == "500"


@pytest.mark.parametrize(
    ("limit", "inputs", "expected"), [(None, 1, None), (900, 1, 900), (901, 2, 450), (1, 2, 1), (None, 2, None)]
)
def test_the_limit_is_shared_by_the_inputs(limit: int | None, inputs: int, expected: int | None) -> None:
    config = job_config("t", 4, {"type": "files", "path": "/out"}, max_records_per_trigger=limit)
    source = next(iter(config.inputs.values()))
    several = config.model_copy(update={"inputs": {f"i{number}": source for number in range(inputs)}})
    assert records_per_input(several) == expected


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
