"""Charts around decisions: what was measured, what was thought, and when something was decided."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock.wire.overview import DecisionView, JobSeries, MetricSeries
from services.console.views.charts import WIDTH
from services.console.views.decisions import METRICS, capacity, decision_charts, in_words

SINCE = datetime(2026, 11, 25, 11, 0, tzinfo=UTC)
RATE = {"state": {"rate": {"rows_per_second": 100.0}}, "config": {"task_count": 4}}


def decision(minute: float, inputs: dict[str, Any] | None = None) -> DecisionView:
    return DecisionView(
        id=1,
        at=SINCE + timedelta(minutes=minute),
        symptom="out_of_memory",
        action="vertical",
        inputs=RATE if inputs is None else inputs,
        change=None,
        outcome="written",
    )


def measured() -> JobSeries:
    found = [MetricSeries(metric=name, unit="rows/s", values=[1.0] * 10) for name in METRICS]
    return JobSeries(job="etl", since=SINCE, until=SINCE + timedelta(minutes=10), step_seconds=60, series=found)


@pytest.mark.parametrize(
    ("action", "symptom", "told"),
    [
        ("none", "unknown", "nothing was done because the lag was unknown"),
        ("none", "none", "nothing was done without a symptom"),
        ("none", "lag", "nothing was done because of lag"),
        ("increase_tasks", "lag", "increase tasks because of lag"),
        ("undo", "out_of_memory", "undo because a task ran out of memory"),
        ("rebalance", "late_rows", "rebalance because of late rows"),
    ],
)
def test_a_decision_in_words(action: str, symptom: str, told: str) -> None:
    assert in_words(decision(1).model_copy(update={"action": action, "symptom": symptom})) == told


def test_each_chart_has_the_decisions_of_its_time() -> None:
    lag, rates, tasks = decision_charts(measured(), [decision(12), decision(5.5), decision(-1)], 90.0)
    assert [chart.title for chart in (lag, rates, tasks)] == ["Lag", "Rows per second", "Tasks"]
    for chart in (lag, rates, tasks):
        [mark] = chart.marks
        assert (mark.x, mark.label) == (pytest.approx(WIDTH * 0.55), "vertical because a task ran out of memory")
        assert json.loads(chart.data)["marks"] == [[mark.at, mark.label]]


def test_the_estimated_capacity_is_a_point_where_it_was_estimated() -> None:
    """Of two decisions in one minute the newer counts, which comes first."""
    newer = decision(5.5, {**RATE, "config": {"task_count": 8}})
    _, rates, _ = decision_charts(measured(), [newer, decision(5.1), decision(2)], 90.0)
    values = json.loads(rates.data)["lines"][2]["values"]
    assert values == [None, None, 400.0, None, None, 800.0, None, None, None, None]


@pytest.mark.parametrize(
    "inputs", [{}, {"state": None, "config": {"task_count": 4}}, {"state": {"rate": None}}, {**RATE, "config": {}}]
)
def test_without_an_estimate_the_capacity_is_unknown(inputs: dict[str, Any]) -> None:
    assert capacity(decision(1, inputs)) is None


def test_what_a_browser_draws_has_the_words_of_each_figure() -> None:
    lag, *_ = decision_charts(measured(), [], 90.0)
    told = json.loads(lag.data)
    assert (told["since"], told["step"], told["top"], told["target"]) == (SINCE.timestamp(), 60, 1.0, None)
    assert told["ticks"] == ["0", "0.5", "1"]
    assert told["lines"][0]["texts"] == ["1 rows/s"] * 10
