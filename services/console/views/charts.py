"""Series as lines of a picture, drawn here as SVG: a browser needs no script to see them. Pure.

With scripts the browser draws the same with uPlot (`static/charts.js`), to be read at any point and zoomed into. It
takes numbers and words from `Chart.data`, so a figure is worded here alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from penstock.wire.overview import JobSeries, MetricSeries, Series
from services.console.views.words import tick, with_unit

WIDTH, HEIGHT = 480, 130
TOP, BOTTOM = 8, 18
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


class Span(NamedTuple):
    """How long back charts reach, and how long a step of theirs is."""

    length: timedelta
    step_seconds: int


SPANS = {
    "15 min": Span(timedelta(minutes=15), 60),
    "1 h": Span(timedelta(hours=1), 60),
    "6 h": Span(timedelta(hours=6), 60),
    "24 h": Span(timedelta(days=1), 300),
    "7 d": Span(timedelta(days=7), 1800),
}
USUAL_SPAN = "1 h"


class Mark(NamedTuple):
    """Something that happened: how far from the left of the picture, when (seconds of the epoch), and what."""

    x: float
    at: float
    label: str

    @classmethod
    def of(cls, at: datetime, label: str, found: Series) -> Mark:
        """The mark of a moment."""
        share = (at - found.since) / (found.until - found.since)
        return cls(WIDTH * share, at.timestamp(), label)


@dataclass(frozen=True, slots=True)
class Line:
    """One series. `paths`: its points, a path for each run of known values; `last` is its newest known value."""

    name: str
    style: str
    paths: tuple[str, ...]
    last: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture of `WIDTH` by `HEIGHT`. `target`: the height of a line that must not be crossed; None without one.

    `data`: JSON of `since` (seconds of the epoch), `step` (s), `top`, `ticks` (words at 0, half and all of it), `lines`
    (`values`, `texts`), `target` and `marks`.
    """

    title: str
    lines: tuple[Line, ...]
    top: str
    target: float | None
    target_label: str
    begins: str
    ends: str
    is_known: bool
    marks: tuple[Mark, ...]
    data: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """A chart that is wanted: its title and the metrics in it, with the name of each in the picture."""

    title: str
    metrics: tuple[tuple[str, str], ...]


CHARTS = (
    Wanted("Lag", (("lag_seconds", "lag of the worst task"),)),
    Wanted("Rows per second", (("input_rows_per_second", "read"), ("processed_rows_per_second", "can process"))),
    Wanted("Backlog", (("backlog_records", "records not read"),)),
    Wanted("Batch", (("batch_seconds", "of the slowest task"),)),
    Wanted("CPU", (("cpu_cores", "cores in use"),)),
    Wanted("Memory", (("memory_bytes", "of the tasks"), ("state_memory_bytes", "of their state"))),
    Wanted("State", (("state_rows", "rows of state"),)),
    Wanted("Tasks", (("tasks_running", "running"), ("crashes", "crashes in a row"))),
)
METRICS = tuple(metric for wanted in CHARTS for metric, _ in wanted.metrics)


def charts(found: JobSeries, max_lag_seconds: float) -> Iterator[Chart]:
    """The pictures of what a job measured; a chart of which nothing is known says so."""
    by_name = {series.metric: series for series in found.series}
    for wanted in CHARTS:
        series = [(name, by_name[metric]) for metric, name in wanted.metrics if metric in by_name]
        if series:
            target = max_lag_seconds if wanted.title == "Lag" else None
            yield chart(wanted.title, series, found, target)


def chart(
    title: str,
    series: Sequence[tuple[str, MetricSeries]],
    found: Series,
    target: float | None = None,
    marks: Sequence[Mark] = (),
) -> Chart:
    """The picture of series of one unit, by the name that each has in it. `target`: what they should not exceed."""
    known = [value for _, each in series for value in each.values if value is not None]
    unit = series[0][1].unit
    # A target far above all that was measured would press the line to the ground: it is then only written.
    highest = max(known, default=0.0)
    shows_target = target is not None and highest >= target / 4
    drawn = target if shows_target else None
    top = nice_top(max(highest, drawn or 0.0))
    return Chart(
        title=title,
        lines=tuple(_line(name, number, each, top) for number, (name, each) in enumerate(series)),
        top=with_unit(top, unit),
        target=None if drawn is None else _height(drawn, top),
        target_label="" if target is None else f"SLO {with_unit(target, unit)}",
        begins=_time(found.since, found),
        ends=f"{_time(found.until, found)} UTC",
        is_known=bool(known),
        marks=tuple(marks),
        data=json.dumps(_data(series, found, top, drawn, marks), separators=(",", ":")),
    )


def _data(
    series: Sequence[tuple[str, MetricSeries]], found: Series, top: float, target: float | None, marks: Sequence[Mark]
) -> dict[str, Any]:
    unit = series[0][1].unit
    lines = [
        {
            "values": [None if value is None else float(f"{value:.6g}") for value in each.values],
            "texts": [with_unit(value, each.unit) for value in each.values],
        }
        for _, each in series
    ]
    return {
        "since": found.since.timestamp(),
        "step": found.step_seconds,
        "top": top,
        "ticks": [tick(share * top, unit) for share in (0.0, 0.5, 1.0)],
        "lines": lines,
        "target": target,
        "marks": [[mark.at, mark.label] for mark in marks],
    }


def nice_top(highest: float) -> float:
    """The round number that the picture reaches up to: 1, 2, 2.5, 5 times a power of ten."""
    if highest <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(highest))
    return next(step * power for step in _STEPS if step * power >= highest * 0.999)


def _line(name: str, number: int, series: MetricSeries, top: float) -> Line:
    known = [value for value in series.values if value is not None]
    last = with_unit(known[-1] if known else None, series.unit)
    return Line(name, f"line-{number}", tuple(paths(series.values, top)), last)


def paths(values: Sequence[float | None], top: float) -> Iterator[str]:
    """The points of each run of known values; a single one is a short stroke."""
    step = WIDTH / max(1, len(values) - 1)
    run: list[str] = []
    for index, value in enumerate((*values, None)):
        if value is not None:
            run.append(f"{index * step:.1f},{_height(value, top):.1f}")
        elif run:
            yield " ".join(run if len(run) > 1 else _stroke(run[0]))
            run = []


def _stroke(point: str) -> list[str]:
    x, _, y = point.partition(",")
    left = max(0.0, min(float(x) - 1.5, WIDTH - 3.0))
    return [f"{left:.1f},{y}", f"{left + 3:.1f},{y}"]


def _height(value: float, top: float) -> float:
    share = min(1.0, max(0.0, value / top))
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - share)


def _time(moment: datetime, found: Series) -> str:
    return f"{moment:%H:%M}" if found.until - found.since <= timedelta(days=1) else f"{moment:%m-%d %H:%M}"
