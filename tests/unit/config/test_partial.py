"""What is told of a configuration that is wrong in several places at once."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.config.merge import apply_merge_patch
from penstock.config.problems import Problem, problems_in, require_all
from penstock.config.tree import entries
from penstock.config.validate import check_change, check_merged, layer_problems
from penstock.control.errors import InvalidConfig
from tests.support.config.jobs import job

SIDE = {"output": {"type": "kafka", "topic": "late"}, "where": "delay >"}
WHERE = ("side_outputs.late.where", "sql_syntax")
MISSPELT = {"query": {"sql": "SELEC * FROM flights"}}
SQL = ("query.sql", "sql_syntax")
TYPE = ("side_outputs.other.output.type", "required")


def wrong_in(change: dict[str, Any]) -> list[tuple[str, str]]:
    """Field and rule of each problem of the right job with a change."""
    with pytest.raises(InvalidConfig) as refused:
        check_merged(job(change))
    return [(problem.field, problem.rule) for problem in problems_in(refused.value)]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"side_outputs": {"late": SIDE, "other": {"output": {"topic": "x"}}}}, [TYPE, WHERE]),
        ({"side_outputs": {"late": SIDE}, "task_count": "4"}, [("task_count", "int_type"), WHERE]),
        ({"side_outputs": {"late": SIDE}, "output": {"topic": None}}, [("output.topic", "required"), WHERE]),
        (MISSPELT | {"inputs": {"flights": {"key_groups": "8"}}}, [("inputs.flights.key_groups", "int_type"), SQL]),
        (
            MISSPELT | {"side_outputs": {"late": SIDE}, "slo": {"max_lag": 1}},
            [("slo.max_lag", "unknown_field"), WHERE, SQL],
        ),
    ],
)
def test_all_that_can_be_known_is_told(change: dict[str, Any], told: list[tuple[str, str]]) -> None:
    assert wrong_in(change) == told


@pytest.mark.parametrize(
    "change",
    [
        # task_count is not known, so nothing is said of key groups.
        {"task_count": "40"},
        # The limit is written, by another name.
        {"task_count": 40, "max_task_cont": 50, "inputs": {"flights": {"key_groups": 64}}},
        # What the query reads is there, though wrong.
        {"inputs": {"flights": {"key_groups": "8"}}},
        {"query": None},
    ],
)
def test_nothing_is_made_up_of_what_is_not_known(change: dict[str, Any]) -> None:
    assert len(wrong_in(change)) == 1


def test_whatever_field_is_wrong_the_rest_is_looked_at() -> None:
    right = job({"side_outputs": {"late": SIDE}})
    fields = [entry.path for entry in entries(right) if entry.path[0] != "side_outputs"]
    for path in fields:
        change: Any = {"an": ["object"]}
        for key in reversed(path):
            change = {key: change}
        assert WHERE in wrong_in(apply_merge_patch({"side_outputs": {"late": SIDE}}, change)), path


def test_what_a_layer_may_not_set_is_told_with_what_the_merge_breaks() -> None:
    layer = {"task_count": 2**70, "side_outputs": {"late": SIDE, "other": {"output": {"topic": "x"}}}}
    with pytest.raises(InvalidConfig) as refused:
        check_change(job(layer), (), layer_problems("base", layer))
    told = [(problem.field, problem.rule) for problem in problems_in(refused.value)]
    assert told == [("task_count", "integer_too_large"), TYPE, WHERE]


def test_a_rule_that_the_job_breaks_already_is_told_of_no_write() -> None:
    before = job({"side_outputs": {"late": SIDE}})
    with pytest.raises(InvalidConfig) as refused:
        check_change(before | {"task_count": "4"}, [before])
    assert [problem.field for problem in problems_in(refused.value)] == ["task_count"]


def test_all_checks_are_made() -> None:
    def refuse(*rules: str) -> None:
        raise InvalidConfig("x", field="f", rule=rules[0], errors=[Problem("f", rule, "x")._asdict() for rule in rules])

    def refuse_alone() -> None:
        raise InvalidConfig("x", field="g", rule="c")

    require_all(lambda: None)
    with pytest.raises(InvalidConfig) as refused:
        require_all(lambda: refuse("a", "b"), lambda: None, refuse_alone)
    assert [(each.field, each.rule) for each in problems_in(refused.value)] == [("f", "a"), ("f", "b"), ("g", "c")]
