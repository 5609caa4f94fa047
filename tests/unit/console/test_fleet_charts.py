"""The shares of the fleet over time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from penstock.model.states import Health
from penstock.wire.overview import MetricSeries, Series
from services.console.views.fleet_charts import fleet_charts

SINCE = datetime(2026, 11, 25, 11, 0, tzinfo=UTC)


def series(**values: list[float | None]) -> Series:
    unknown: dict[str, list[float | None]] = {f"jobs_{health}": [None, None] for health in Health}
    unknown |= {"tasks": [None, None], "tasks_running": [None, None], "tasks_not_running": [None, None]}
    found = [MetricSeries(metric=name, unit="", values=each) for name, each in (unknown | values).items()]
    return Series(since=SINCE, until=SINCE + timedelta(minutes=2), step_seconds=60, series=found)


def counts(**jobs: float) -> dict[str, list[float | None]]:
    """Of the second step; nothing is known of the first."""
    return {f"jobs_{health}": [None, jobs.get(health, 0.0)] for health in Health}


def test_shares_are_of_the_jobs_that_should_run_and_what_is_unknown_is_a_gap() -> None:
    found = fleet_charts(series(**counts(healthy=6, lagging=1, held=1, stopped=8), tasks=[8.0, 8.0]))
    assert [(each.title, each.lines[0].last, each.is_known) for each in found] == [
        ("Jobs not running", "12 %", True),
        ("Jobs lagging", "12 %", True),
        ("Jobs unhealthy", "25 %", True),
        ("Tasks not running", "–", False),
    ]


def test_without_a_job_or_a_task_that_should_run_there_is_no_share() -> None:
    found = fleet_charts(
        series(**counts(stopped=8), tasks=[None, 0.0], tasks_running=[None, 0.0], tasks_not_running=[None, 0.0])
    )
    assert {each.is_known for each in found} == {False}


def test_tasks_that_are_not_running_have_a_share_of_those_that_should() -> None:
    *_, tasks = fleet_charts(series(tasks=[4.0, 8.0], tasks_running=[3.0, 4.0], tasks_not_running=[1.0, 4.0]))
    assert ([line.last for line in tasks.lines], tasks.top) == (["50 %", "0 %"], "50 %")


def test_tasks_that_nobody_reports_are_unknown_and_not_nought() -> None:
    *_, tasks = fleet_charts(series(tasks=[8.0, 8.0], tasks_running=[8.0, 0.0], tasks_not_running=[0.0, 2.0]))
    assert [line.last for line in tasks.lines] == ["25 %", "75 %"]
