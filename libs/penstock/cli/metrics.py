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

    In the course `·` is a time of which nothing is known. Metrics of which nothing is known have no values. `--json`
    prints every value, an unknown one as null.
    """
    seconds = duration_seconds(last, field="last")
    until = datetime.now(UTC)
    step = None if as_json else _step_seconds(seconds)
    answer = client().metrics(
        job, metric=metric or (), since=until - timedelta(seconds=seconds), until=until, step_seconds=step
    )
    if as_json:
        return show_json(answer)
    say(f"the last {span(seconds)}, to {clock(until, until)}; a character of the course is {span(step or 60)}")
    return table(
        ("metric", "unit", "last", "least", "mean", "most", "course"), [row(series) for series in answer.series]
    )


def row(series: MetricSeries) -> tuple[Any, ...]:
    """The cells of a metric."""
    known = [value for value in series.values if value is not None]
    if not known:
        return series.metric, series.unit, *(None,) * 4, course(series.values)
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
