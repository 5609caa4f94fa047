"""What `penstock plan` says of a plan."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.cli.layers import difference, plan_outcome, plan_table, plan_title
from penstock.wire.jobs import FieldChangeView, PlanView


def answer_of(**more: Any) -> PlanView:
    plan: dict[str, Any] = {
        "job": "etl",
        "layer": "base",
        "version": 1,
        "kind": "restart",
        "allowed": True,
        "fields": [],
        "steps": [],
        "waves": [],
        "completeness": None,
        "tasks_touched": [],
        "downtime_seconds": None,
        "catch_up_seconds": None,
        "config": {},
    }
    return PlanView(**(plan | more))


def test_the_waves_of_a_package_are_told_with_their_tasks() -> None:
    answer = answer_of(steps=["initialize_sink", "wave_1", "wave_2"], waves=[["etl/0"], ["etl/1", "etl/2"]])
    assert list(plan_outcome(answer))[:3] == ["1. initialize_sink", "2. wave_1: etl/0", "3. wave_2: etl/1, etl/2"]


def test_a_new_job_has_no_change_kinds() -> None:
    """`forbidden` beside its fields would look like a refusal."""
    change = FieldChangeView(field="state_backend", old=None, new="heap", kind="forbidden")
    new, old = answer_of(is_new=True, fields=[change]), answer_of(fields=[change])
    assert plan_title(new) == "etl: new job"
    assert plan_table(new) == (("field", "old", "new"), [("state_backend", "-", "heap")])
    assert plan_title(old) == "etl: change kind restart"
    assert plan_table(old)[1] == [("state_backend", "-", "heap", "forbidden")]


def test_a_plan_that_changes_nothing_says_so() -> None:
    assert plan_title(answer_of(kind="none")) == "etl: no field changes"


def test_a_rescale_tells_what_it_does_about_watermarks() -> None:
    assert "completeness: wait" in list(plan_outcome(answer_of(completeness="wait")))[-1]
    assert "dropped as late" in list(plan_outcome(answer_of(completeness="drop_late")))[-1]
    assert not any("watermarks" in line for line in plan_outcome(answer_of()))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(2, 4, [], id="numbers stay in the table"),
        pytest.param("json", "csv", [], id="so do short texts"),
        pytest.param(
            "SELECT a\nFROM t",
            "SELECT a, b\nFROM t",
            ["query.sql:", "  - SELECT a", "  + SELECT a, b", "    FROM t"],
            id="lines",
        ),
        pytest.param(None, "S" * 500, ["query.sql:", f"  + {'S' * 500}"], id="a long line is not cut"),
        pytest.param("S" * 50, None, ["query.sql:", f"  - {'S' * 50}"], id="removed"),
    ],
)
def test_long_texts_of_a_plan_are_compared_line_by_line(old: object, new: object, expected: list[str]) -> None:
    change = FieldChangeView(field="query.sql", old=old, new=new, kind="restart")
    assert list(difference(change)) == expected
