"""The model held against real runs: fitted on some, it predicts the minutes of others from their input and tasks.

Fitted are the rate of a task and the fixed part of its batches (a line through busy shares), the downtime of a change,
and the slow first minute after it. Changes happen when they did: it is the job that is predicted, not the decisions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import NamedTuple

import numpy as np

from tests.support.autoscaling.calibration import TRIGGER_SECONDS, Figures
from tests.support.autoscaling.jobs import KEY_GROUPS, MEMORY_BYTES, Floats, Job, Size
from tests.support.autoscaling.model import Fleet, Minute
from tests.support.autoscaling.recording import RecordedRun, RecordedStep, Recording
from tests.support.autoscaling.seen import Wanted
from tests.support.autoscaling.traces import trace

READ, PROCESSED, BACKLOG, LAG, BUSY = (
    "input_rows_per_second",
    "processed_rows_per_second",
    "backlog_records",
    "lag_seconds",
    "busy_share",
)
_SATURATED = 0.95


class Compared(NamedTuple):
    """A quantity of a step as it was predicted and measured."""

    run: str
    step: int
    quantity: str
    predicted: float
    measured: float


def fit(recording: Recording) -> Figures:
    """The figures of the model that the runs show. There is no noise: what is predicted is the usual course.

    Raises ValueError when the runs have too few measured minutes or no change of tasks.
    """
    changes = [change.down_seconds for run in recording.runs for change in run.changes]
    points = [point for run in recording.runs for step in _undisturbed(run) if (point := _point(step)) is not None]
    if len(points) < 2 or not changes:
        raise ValueError("the runs must have two undisturbed minutes with rows, and a change of tasks")
    rates, busy = np.array(points).T
    seconds_per_row, fixed_share = np.polyfit(rates, busy, 1)
    figures = Figures(
        rows_per_core_second=1.0 / float(seconds_per_row),
        batch_overhead_seconds=max(0.0, float(fixed_share)) * TRIGGER_SECONDS,
        down_seconds=median(changes),
        warm_up_share=1.0,
        rate_noise=0.0,
        host_noise=0.0,
    )
    return figures._replace(warm_up_share=_warm_up_share(recording, figures))


def compare_minutes(recording: Recording, figures: Figures) -> list[Compared]:
    """Every quantity of every step that was measured, beside what the model says."""
    return [one for run in recording.runs for one in _of_run(run, _weights(recording.key_group_shares), figures)]


def errors(compared: Sequence[Compared]) -> dict[str, float]:
    """By quantity: the sum of |predicted - measured| over the sum of what was measured. A quantity that was always
    measured as 0 has none."""
    by_quantity: dict[str, list[Compared]] = defaultdict(list)
    for one in compared:
        by_quantity[one.quantity].append(one)
    return {
        quantity: sum(abs(one.predicted - one.measured) for one in ones) / measured
        for quantity, ones in by_quantity.items()
        if (measured := sum(one.measured for one in ones)) > 0
    }


def _undisturbed(run: RecordedRun) -> Iterator[RecordedStep]:
    changed = {change.step for change in run.changes}
    return (step for number, step in enumerate(run.steps) if number not in changed)


def _point(step: RecordedStep) -> tuple[float, float] | None:
    """Rows that a task read in a second, and its busy share."""
    read, busy = step.measured[READ], step.measured[BUSY]
    return (read / step.tasks, busy) if read and busy is not None else None


def _warm_up_share(recording: Recording, figures: Figures) -> float:
    """What tasks got through in the minute of a change that kept them busy, of what they should have."""
    able = figures.rows_per_core_second * (1.0 - figures.batch_overhead_seconds / TRIGGER_SECONDS)
    shares = []
    for run in recording.runs:
        for change in run.changes:
            step = run.steps[change.step]
            read, busy = step.measured[READ], step.measured[BUSY]
            if read is not None and busy is not None and busy >= _SATURATED:
                shares.append(read / (step.tasks * able))
    return min(1.0, median(shares)) if shares else 1.0


def _of_run(run: RecordedRun, weights: Floats, figures: Figures) -> Iterator[Compared]:
    for number, (step, minute) in enumerate(zip(run.steps, _passed(run, weights, figures), strict=True)):
        for quantity, predicted in _predicted(minute).items():
            measured = step.measured[quantity]
            if measured is not None:
                yield Compared(run.name, number, quantity, predicted, measured)


def _passed(run: RecordedRun, weights: Floats, figures: Figures) -> Iterator[Minute]:
    rates = np.array([step.sent_rows_per_second for step in run.steps])
    job = Job(trace(run.name, run.name, rates), weights)
    fleet = Fleet([job], [[Size(run.steps[0].tasks, MEMORY_BYTES)]], np.random.default_rng(0), figures)
    for number, step in enumerate(run.steps):
        if step.tasks != fleet.tasks[0]:
            fleet.order(0, Wanted(step.tasks, MEMORY_BYTES), number)
        yield fleet.step(number)


def _predicted(minute: Minute) -> Mapping[str, float]:
    return {
        READ: float(minute.processed_rate[0]),
        PROCESSED: float(minute.true_rate[0]),
        BACKLOG: float(minute.backlog[0]),
        LAG: float(minute.delay[0]),
        BUSY: float(minute.busy[0]),
    }


def _weights(key_group_shares: Sequence[float]) -> Floats:
    """Each recorded key group as several of the model, so that ranges of tasks are the same."""
    several = KEY_GROUPS // len(key_group_shares)
    return np.repeat(np.array(key_group_shares) / several, several)
