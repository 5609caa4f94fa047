"""The shares of the first page over time, as pictures. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.model.states import Health
from penstock.wire.overview import MetricSeries, Series
from services.console.views.charts import Chart, chart
from services.console.views.fleet import figures

_TITLES = {figure.title: f"Jobs {figure.title}" for figure in figures({})}


def fleet_charts(found: Series) -> Iterator[Chart]:
    """The shares of jobs that were not running, lagging and unhealthy, and of tasks that were not running."""
    values = {series.metric: series.values for series in found.series}
    jobs = zip(*(values[f"jobs_{health}"] for health in Health), strict=True)
    shares = [_shares(dict(zip(Health, step, strict=True))) for step in jobs]
    for title, shown in _TITLES.items():
        yield _picture(shown, [step.get(title) for step in shares], found)
    yield _tasks(values, found)


def _tasks(values: dict[str, list[float | None]], found: Series) -> Chart:
    """The shares of tasks that do not run, and of those of which nobody reports whether they do."""
    steps = list(zip(values["tasks"], values["tasks_running"], values["tasks_not_running"], strict=True))
    lines = {
        "not running": [_ratio(down, whole) for whole, _, down in steps],
        "unknown": [_ratio(_unreported(*step), step[0]) for step in steps],
    }
    series = [(name, MetricSeries(metric=name, unit="", values=shares)) for name, shares in lines.items()]
    return chart("Tasks not running", series, found)


def _unreported(whole: float | None, up: float | None, down: float | None) -> float | None:
    return None if whole is None or up is None or down is None else whole - up - down


def _shares(step: dict[Health, float | None]) -> dict[str, float | None]:
    """By title; empty for a step of which nothing is known."""
    known = {health: jobs for health, jobs in step.items() if jobs is not None}
    return {figure.title: figure.share for figure in figures(known)} if known else {}


def _ratio(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole


def _picture(title: str, values: Sequence[float | None], found: Series) -> Chart:
    return chart(title, [("newest minute", MetricSeries(metric=title, unit="", values=list(values)))], found)
