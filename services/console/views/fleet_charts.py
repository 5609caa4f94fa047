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
    tasks = zip(values["tasks_not_running"], values["tasks"], strict=True)
    yield _picture("Tasks not running", [_ratio(part, whole) for part, whole in tasks], found)


def _shares(step: dict[Health, float | None]) -> dict[str, float | None]:
    """By title; empty for a step of which nothing is known."""
    known = {health: jobs for health, jobs in step.items() if jobs is not None}
    return {figure.title: figure.share for figure in figures(known)} if known else {}


def _ratio(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole


def _picture(title: str, values: Sequence[float | None], found: Series) -> Chart:
    return chart(title, [("share", MetricSeries(metric=title, unit="", values=list(values)))], found)
