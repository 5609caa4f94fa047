"""What a single layer may hold, and the names of jobs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.config import meant
from penstock.config.merge import overlay
from penstock.config.problems import MAX_PROBLEMS
from penstock.config.validate import check_job_name, check_layer, check_merged
from penstock.control.errors import InvalidConfig
from tests.support.config.jobs import job


def deep(depth: int) -> list[Any]:
    """A list in a list, `depth` deep."""
    nested: list[Any] = []
    for _ in range(depth):
        nested = [nested]
    return nested


REFUSED = [
    ("base", {"nope": 1}, "nope", "unknown_field"),
    ("base", {"resources": {"gpus": 1}}, "resources.gpus", "unknown_field"),
    ("base", {"inputs": {"flights": {"tpic": "x"}}}, "inputs.flights.tpic", "unknown_field"),
    ("base", {"output": {"tpic": "x"}}, "output.tpic", "unknown_field"),
    ("scaler", {"query": {"sql": "SELECT 1"}}, "query.sql", "layer_may_not_set"),
    ("scaler", {"max_task_count": 64}, "max_task_count", "layer_may_not_set"),
    ("scaler", {"inputs": {"flights": {"key_groups": 9}}}, "inputs.flights.key_groups", "layer_may_not_set"),
    ("scaler", {"args": {"x": 1}}, "args.x", "layer_may_not_set"),
    ("rollback", {"priority": 1}, "priority", "layer_may_not_set"),
    ("rollback", {"region": "north"}, "region", "layer_may_not_set"),
    ("rollback", {"package": {"version": None}}, "package.version", "null_in_layer"),
    ("rollback", {"package": None}, "package", "null_in_layer"),
    ("oncall", {"package": {"digest": None}}, "package.digest", "null_in_layer"),
    ("oncall", {"region": None}, "region", "null_in_layer"),
    ("oncall", {"resources": None}, "resources", "null_in_layer"),
    ("oncall", {"args": {"x": None}}, "args.x", "null_in_layer"),
    ("oncall", {"task_count": "4"}, "task_count", "int_type"),
    ("oncall", {"task_count": 4.5}, "task_count", "int_type"),
    ("oncall", {"task_count": True}, "task_count", "int_type"),
    ("oncall", {"task_count": 0}, "task_count", "greater_than_equal"),
    ("oncall", {"task_count": {"x": 1}}, "task_count", "int_type"),
    ("oncall", {"resources": {"cpu_cores": float("nan")}}, "resources.cpu_cores", "finite_number"),
    ("oncall", {"resources": 4}, "resources", "map_expected"),
    ("oncall", {"inputs": [1]}, "inputs", "map_expected"),
    ("oncall", {"isolation": "vm"}, "isolation", "literal_error"),
    ("oncall", {"desired_state": "paused"}, "desired_state", "enum"),
    ("oncall", {"output": {"type": "s3"}}, "output.type", "literal_error"),
    ("base", {"inputs": {"no spaces": {"topic": "x"}}}, "inputs.no spaces", "bad_key"),
    ("base", {"inputs": {"flights": {"key_columns": ["a", None]}}}, "inputs.flights.key_columns", "string_type"),
    ("base", {"inputs": {"flights": {"topic": "no spaces"}}}, "inputs.flights.topic", "string_pattern_mismatch"),
    ("base", {"args": {"x": [1]}}, "args.x", "string_type"),
    ("base", {"args": {"x": deep(2000)}}, "args.x", "too_deep"),
    ("base", {"args": {"x": 2**63}}, "args.x", "integer_too_large"),
    ("base", {"args": {"x": "a\0b"}}, "args.x", "nul_character"),
    ("base", {"labels": {"Upper": "x"}}, "labels.Upper", "bad_key"),
    ("base", {"container_labels": {"Disk": "ssd"}}, "container_labels.Disk", "bad_key"),
    ("base", {"container_labels": {"disk": "a,b=c"}}, "container_labels.disk", "string_pattern_mismatch"),
    ("base", {"container_labels": "disk=ssd"}, "container_labels", "map_expected"),
    ("scaler", {"container_labels": {"disk": "ssd"}}, "container_labels.disk", "layer_may_not_set"),
    ("base", {"labels": {"team": 3}}, "labels.team", "string_type"),
]


@pytest.mark.parametrize(("layer", "config", "field", "rule"), REFUSED)
def test_refused(layer: str, config: dict[str, Any], field: str, rule: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        check_layer(layer, config)
    assert (refused.value.field, refused.value.rule) == (field, rule)


@pytest.mark.parametrize(
    ("layer", "config"),
    [
        ("base", job()),
        ("oncall", {}),
        ("oncall", {"inputs": {}}),
        ("oncall", {"resources": {}}),
        ("scaler", {"task_count": 4, "resources": {"cpu_cores": 1, "memory_bytes": 2**30}, "isolation": "process"}),
        ("canary", {"package": {"version": "2"}, "output": {"topic": "elsewhere"}}),
        ("provisioner", {"inputs": {"flights": {"key_columns": ["dest", "day"]}}}),
        ("base", {"args": {"text": "x", "whole": 2**63 - 1, "part": 1.5, "flag": False}}),
        ("base", {"spark_settings": {"spark.sql.session.timeZone": "UTC"}, "labels": {"team": ""}}),
    ],
)
def test_accepted(layer: str, config: dict[str, Any]) -> None:
    before = json.dumps(config)
    check_layer(layer, config)
    assert json.dumps(config) == before


def test_all_problems_are_listed_and_the_first_is_the_error() -> None:
    with pytest.raises(InvalidConfig) as refused:
        check_layer("scaler", {"task_count": 0, "nope": 1, "owner": 3})
    error = refused.value
    assert [(found["field"], found["rule"]) for found in error.extra["errors"]] == [
        ("task_count", "greater_than_equal"),
        ("nope", "unknown_field"),
        ("owner", "layer_may_not_set"),
        ("owner", "string_type"),
    ]
    assert (error.field, error.rule, error.status) == ("task_count", "greater_than_equal", 422)
    assert error.detail.endswith("(and 3 more)")


def test_the_answer_stays_small_and_printable() -> None:
    with pytest.raises(InvalidConfig) as refused:
        check_layer("base", {f"\ud800{number}" * 3000: 1 for number in range(MAX_PROBLEMS + 50)})
    errors = refused.value.extra["errors"]
    assert len(errors) == MAX_PROBLEMS
    assert len(json.dumps(errors, ensure_ascii=False).encode()) < 10**6


@pytest.mark.parametrize("name", ["a", "flights", "team.flights-clean_2", "0", "a" * 100])
def test_job_name(name: str) -> None:
    assert check_job_name(name) is None


@pytest.mark.parametrize("name", ["", "Upper", "a/b", ".a", "a.", "-", "a b", "a\n", "é", "a" * 101, ".."])
def test_bad_job_name(name: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        check_job_name(name)
    assert (refused.value.field, refused.value.rule) == ("job", "job_name")


def test_the_layer_that_rolls_back_may_hide_a_value() -> None:
    """A package without a digest, and a query in Python where the later one was in SQL."""
    good = {"package": {"version": "1", "digest": None}, "query": {"sql": None, "python": "job:read"}}
    check_layer("rollback", good)
    new = {"package": {"name": "flights", "version": "2", "digest": f"sha256:{'a' * 64}"}, "query": {"sql": "SELECT 1"}}
    config = check_merged(overlay(job(new), good))
    assert (config.package.version, config.package.digest, config.query.sql) == ("1", None, None)


def test_an_unknown_field_names_those_that_look_like_it() -> None:
    with pytest.raises(InvalidConfig, match=r"there is no such field; do you mean max_records_per_trigger, "):
        check_layer("oncall", {"max_records_per_triger": 5})


def test_the_first_twenty_problems_of_a_layer_have_suggestions() -> None:
    """A suggestion takes a millisecond or more, and a layer may have thousands of names."""
    with pytest.raises(InvalidConfig) as refused:
        check_layer("base", {f"priority{number}": 1 for number in range(30)})
    told = [problem["detail"] for problem in refused.value.extra["errors"]]
    assert ["do you mean" in each for each in told] == [True] * 20 + [False] * 10


def test_a_long_name_has_no_suggestion(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = list[str]()
    monkeypatch.setattr(meant, "get_close_matches", lambda name, *_, **__: compared.append(name) or [])
    with pytest.raises(InvalidConfig, match="there is no such field"):
        check_layer("base", {"a" * 100: 1, "b" * 101: 1})
    assert set(compared) == {"a" * 100}
