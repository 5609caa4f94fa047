"""What a job measured: a row for each metric, with its course."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from penstock.cli.arguments import AsJson, Job
from penstock.cli.connection import client
from penstock.cli.output import clock, say, show_json, span, table
from penstock.cli.parse import duration_seconds
from penstock.wire.overview import MetricSeries

_COLUMNS = 40
_BARS = "▁▂▃▄▅▆▇█"
_UNKNOWN = "·"


def metrics(
    job: Job,
    last: Annotated[str, typer.Option("--last", help="how far back: 30m, 6h, 14d")] = "1h",
    metric: Annotated[list[str] | None, typer.Option("--metric", help="only this metric; may be given again")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a job measured lately: the last known value, the least, the mean and the greatest, and the course.

    In the course `·` is a time of which nothing is known. Metrics of which nothing is known are named below the table.
    `--json` prints every value, an unknown one as null.
    """
    seconds = duration_seconds(last, field="last")
    until = datetime.now(UTC)
    step = None if as_json else _step_seconds(seconds)
    answer = client().metrics(
        job, metric=metric or (), since=until - timedelta(seconds=seconds), until=until, step_seconds=step
    )
    if as_json:
        return show_json(answer)
    known = [series for series in answer.series if is_known(series)]
    if known:
        say(f"the last {span(seconds)}, to {clock(until, until)}; a character of the course is {span(step or 60)}")
        table(("metric", "unit", "last", "least", "mean", "most", "course"), [row(series) for series in known])
    return say(without_figures(answer.series)) if len(known) < len(answer.series) else None


def is_known(series: MetricSeries) -> bool:
    """Whether it has any value."""
    return any(value is not None for value in series.values)


def without_figures(found: Sequence[MetricSeries]) -> str:
    """A sentence that names the metrics without any value."""
    unknown = [series.metric for series in found if not is_known(series)]
    if len(unknown) == len(found):
        return "nothing was measured in this time: running tasks are measured each minute"
    return f"nothing is known of {', '.join(unknown)}"


def row(series: MetricSeries) -> tuple[Any, ...]:
    """The cells of a metric of which something is known."""
    known = [value for value in series.values if value is not None]
    figures = (known[-1], min(known), sum(known) / len(known), max(known))
    return series.metric, series.unit, *map(short, figures), course(series.values)


def short(value: float) -> str:
    """A number with three digits that count, or all digits before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def course(values: Sequence[float | None]) -> str:
    """A character for each value, by its place between zero and the greatest."""
    most = max((value for value in values if value is not None), default=0.0)
    return "".join(_UNKNOWN if value is None else _bar(value, most) for value in values)


def _bar(value: float, most: float) -> str:
    share = value / most if most > 0 else 0.0
    return _BARS[min(len(_BARS) - 1, max(0, int(share * len(_BARS))))]


def _step_seconds(seconds: int) -> int:
    """The shortest step of whole minutes that gives as many values as the course has columns."""
    minutes = max(1, -(-seconds // 60))
    return min(86_400, 60 * -(-minutes // _COLUMNS))
