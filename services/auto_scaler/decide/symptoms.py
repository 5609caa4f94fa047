"""What is wrong with a job, from what its tasks measured: lag, imbalance, out of memory.

None is unknown, never zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean, median, pstdev
from typing import Literal

from penstock.config.declare import Model
from penstock.tasks.lag import lag_seconds

LagBasis = Literal["bytes", "records", "age"]
_AGE_BEYOND_RATE = 1.5
# A batch of a catch-up may take as long.
_LEAST_AGE_SECONDS = 15.0
_LEAST_COMPARED = 2


class TaskSample(Model):
    """The newest measurements of one task; `processed_*` is what it gets through in a second of work.

    `lag_seconds`: as it was sampled, by records, no less than the age of a batch that has not finished, and no more
    than the age of the oldest unread record.
    """

    index: int
    input_rows_per_second: float | None = None
    processed_rows_per_second: float | None = None
    input_bytes_per_second: float | None = None
    backlog_records: int | None = None
    backlog_bytes: int | None = None
    lag_seconds: float | None = None
    out_of_memory: bool = False


class WorstTask(Model):
    """The task that lags most, by records. `others_lag_seconds`: that of the next one. `rate_share`: its processing
    rate, in parts of the median of the others."""

    index: int
    lag_seconds: float
    others_lag_seconds: float
    rate_share: float


class JobSymptoms(Model):
    """Of all tasks of a job together.

    `time_lagged_seconds` is that of the task that lags most, None when it is unknown; `lag_basis` says in what it was
    measured: `age` is that of a batch which has not finished, the least that is sure. `imbalance` is the standard
    deviation of the tasks' processing rates relative to their mean.
    `out_of_memory`: some task was, lately. `processed_rows_per_second`: what all tasks get through in a second of work.
    `largest_backlog_share`: the part of the backlog that waits for one task alone. `worst`: the task that lags most.
    """

    tasks_expected: int
    tasks_measured: int
    time_lagged_seconds: float | None
    lag_basis: LagBasis | None
    imbalance: float | None
    out_of_memory: bool
    processed_rows_per_second: float | None = None
    largest_backlog_share: float | None = None
    worst: WorstTask | None = None


def detect(samples: Sequence[TaskSample], task_count: int) -> JobSymptoms:
    """The symptoms of a job of `task_count` tasks; a task without a sample makes lag and imbalance unknown."""
    measured = [sample for sample in samples if sample.index < task_count]
    complete = len({sample.index for sample in measured}) == task_count
    lag, basis = time_lagged(measured) if complete else (None, None)
    return JobSymptoms(
        tasks_expected=task_count,
        tasks_measured=sum(_is_known(sample) for sample in measured),
        time_lagged_seconds=lag,
        lag_basis=basis,
        imbalance=imbalance(measured) if complete else None,
        out_of_memory=any(sample.out_of_memory for sample in samples),
        processed_rows_per_second=processed_together(measured) if complete else None,
        largest_backlog_share=largest_backlog_share(measured) if complete else None,
        worst=worst_task(measured) if complete else None,
    )


def _is_known(sample: TaskSample) -> bool:
    """Whether anything but a lack of memory is known of a task: of an old sample nothing else is."""
    known = (sample.backlog_records, sample.backlog_bytes, sample.input_rows_per_second)
    return known != (None, None, None) or sample.processed_rows_per_second is not None


def time_lagged(samples: Sequence[TaskSample]) -> tuple[float | None, LagBasis | None]:
    """Seconds of work that wait for the task that lags most: backlog over processing rate (Turbine, equation 1), in
    bytes where they are known.

    The SLO holds for each row, so the idle tasks of a skewed job do not make up for a busy one. Nothing waiting is no
    lag, whatever the rate. Something waiting without a rate is unknown: the job may stand still, or nobody has
    measured it yet. Where some tasks have no rate, the lag of all together counts, too. A batch that takes longer than
    the rate of those before lets its rows wait: the lag is no less than its age.
    """
    by_rate, basis = _by_rate(samples)
    age = max((age for sample in samples if (age := _unfinished_seconds(sample)) is not None), default=0.0)
    if age > (by_rate or 0.0) and (by_rate is None or age > _LEAST_AGE_SECONDS):
        return age, "age"
    return by_rate, basis


def _unfinished_seconds(sample: TaskSample) -> float | None:
    """The age of a batch that takes longer than all that waits would by its rate; None when there is none."""
    by_rate = lag_seconds(sample.backlog_records, sample.processed_rows_per_second) or 0.0
    age = sample.lag_seconds if sample.backlog_records != 0 else None
    return age if age is not None and age > _AGE_BEYOND_RATE * by_rate else None


def _by_rate(samples: Sequence[TaskSample]) -> tuple[float | None, LagBasis | None]:
    in_bytes = _lag(samples, lambda sample: sample.backlog_bytes, processed_bytes_per_second)
    if in_bytes is not None:
        return in_bytes, "bytes"
    in_records = _lag(samples, lambda sample: sample.backlog_records, lambda sample: sample.processed_rows_per_second)
    return (None, None) if in_records is None else (in_records, "records")


def _lag(
    samples: Sequence[TaskSample],
    backlog: Callable[[TaskSample], int | None],
    rate: Callable[[TaskSample], float | None],
) -> float | None:
    pairs = [(backlog(sample), rate(sample)) for sample in samples]
    if not pairs or any(waits is None for waits, _ in pairs):
        return None
    each = [lag_seconds(waits, speed) for waits, speed in pairs]
    if all(lag is not None for lag in each):
        return max(lag for lag in each if lag is not None)
    together = lag_seconds(_total([waits for waits, _ in pairs]), _total([speed for _, speed in pairs]))
    return None if together is None else max(together, *(lag for lag in each if lag is not None))


def processed_bytes_per_second(sample: TaskSample) -> float | None:
    """A task's processing rate in bytes: its rate in rows, times the mean size of the rows that come in."""
    rows, size = sample.input_rows_per_second, sample.input_bytes_per_second
    if sample.processed_rows_per_second is None or not rows or size is None:
        return None
    return sample.processed_rows_per_second * size / rows


def imbalance(samples: Sequence[TaskSample]) -> float | None:
    """Standard deviation of the tasks' processing rates over their mean; 0 for one task, None when one is unknown."""
    rates = _rates(samples)
    known = [rate for rate in rates if rate is not None]
    if not known or len(known) < len(rates):
        return None
    mean = fmean(known)
    return pstdev(known) / mean if mean > 0 else None


def processed_together(samples: Sequence[TaskSample]) -> float | None:
    """What all tasks get through; one that had no row has shown no speed, and counts as the mean of the others."""
    rates = _rates(samples)
    shown = [rate for rate in rates if rate]
    return fmean(shown) * len(rates) if shown and None not in rates else None


def largest_backlog_share(samples: Sequence[TaskSample]) -> float | None:
    """The backlog of the task that has most of it over that of all; None when one is unknown, or nothing waits."""
    known = [sample.backlog_records for sample in samples if sample.backlog_records is not None]
    if len(known) < len(samples) or not sum(known):
        return None
    return max(known) / sum(known)


def worst_task(samples: Sequence[TaskSample]) -> WorstTask | None:
    """None for a single task, and when the lag of one is unknown: without work a task has shown no rate."""
    known = [
        (lag, sample.index, sample.processed_rows_per_second or 0.0)
        for sample in samples
        if (lag := lag_seconds(sample.backlog_records, sample.processed_rows_per_second)) is not None
    ]
    if len(known) < len(samples) or len(known) < _LEAST_COMPARED:
        return None
    (lag, index, rate), *others = sorted(known, reverse=True)
    usual = median(speed for _, _, speed in others)
    if not usual or not lag:
        return None
    return WorstTask(index=index, lag_seconds=lag, others_lag_seconds=others[0][0], rate_share=rate / usual)


def _rates(samples: Sequence[TaskSample]) -> list[float | None]:
    return [sample.processed_rows_per_second for sample in samples]


def _total(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None
