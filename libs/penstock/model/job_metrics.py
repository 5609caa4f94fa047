"""What is known of a job in each minute: the metrics by name, and series of them. Pure. None is unknown, never zero."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from penstock.model.reports import ErrorClass

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
HOUR_MINUTES = 60
Values = tuple[float | None, ...]


class Over(StrEnum):
    """How the samples of a job's tasks become one value of a minute, and its minutes one value of a longer step.

    SUM, MEAN: of all tasks of the job, unknown unless each was measured; the mean of the minutes that are known.
    WORST: the greatest that was measured, over tasks and over minutes. COUNT: a sum over the tasks that were heard,
    unknown unless each of them said it; the greatest of the minutes. EVENTS: as COUNT; the sum of the minutes that are
    known.
    """

    SUM = "sum"
    MEAN = "mean"
    WORST = "worst"
    COUNT = "count"
    EVENTS = "events"


class JobMetric(NamedTuple):
    """A column of `job_metrics`; `of_task`: the expression over columns of `task_metrics` that it is made of."""

    name: str
    unit: str
    over: Over
    of_task: str
    meaning: str


JOB_METRICS = (
    JobMetric("input_rows_per_second", "rows/s", Over.SUM, "input_rows_per_second", "rows that came in, by the clock"),
    # A minute without rows has the rate 0: how fast the task could work is not known then.
    JobMetric(
        "processed_rows_per_second",
        "rows/s",
        Over.SUM,
        "NULLIF(processed_rows_per_second, 0)",
        "rows that the tasks process while they are busy; unknown while one of them has none",
    ),
    JobMetric("input_bytes_per_second", "bytes/s", Over.SUM, "input_bytes_per_second", "bytes that came in"),
    JobMetric("busy_share", "", Over.MEAN, "busy_share", "share of the time in which batches ran, mean of the tasks"),
    JobMetric("batch_seconds", "s", Over.WORST, "batch_seconds", "duration of a batch, of the slowest task"),
    JobMetric("backlog_records", "records", Over.SUM, "backlog_records", "records that are not read yet"),
    JobMetric(
        "key_group_backlog_records",
        "records",
        Over.WORST,
        "key_group_backlog_records",
        "records that are not read yet of the key group that has most",
    ),
    JobMetric("backlog_bytes", "bytes", Over.SUM, "backlog_bytes", "bytes that are not read yet"),
    JobMetric("lag_seconds", "s", Over.WORST, "lag_seconds", "how far the worst task is behind its input"),
    JobMetric("state_rows", "rows", Over.SUM, "state_rows", "rows of state"),
    JobMetric("state_memory_bytes", "bytes", Over.SUM, "state_memory_bytes", "memory of the state"),
    JobMetric("late_rows_per_second", "rows/s", Over.SUM, "late_rows_per_second", "rows dropped because they are late"),
    JobMetric("cpu_cores", "cores", Over.SUM, "cpu_cores", "cpu that the tasks use"),
    JobMetric("memory_bytes", "bytes", Over.SUM, "memory_bytes", "memory that the tasks use"),
    JobMetric("tasks_running", "tasks", Over.COUNT, "CAST(running AS integer)", "tasks that were heard to run"),
    JobMetric("crashes", "crashes", Over.COUNT, "crashes", "crashes in a row of tasks that are not healthy again"),
    JobMetric(
        "out_of_memory",
        "tasks",
        Over.COUNT,
        "CAST(out_of_memory AS integer)",
        "tasks whose newest crash was for lack of memory and that are not healthy again",
    ),
    JobMetric(
        "restarts",
        "restarts",
        Over.EVENTS,
        " + ".join(f"errors_{each}" for each in ErrorClass),
        "how often tasks ended by themselves or did not start; each time they are started again",
    ),
    *(
        JobMetric(f"errors_{each}", "errors", Over.EVENTS, f"errors_{each}", meaning)
        for each, meaning in (
            (ErrorClass.OUT_OF_MEMORY, "restarts for lack of memory"),
            (ErrorClass.CONFIGURATION, "restarts because a task cannot run as it is configured"),
            (ErrorClass.FENCED, "restarts because another owner of the checkpoint took over"),
            (ErrorClass.HOST, "restarts because the Spark host ended or did not start"),
            (ErrorClass.OTHER, "all other restarts, such as for exceptions of a query, source or sink"),
        )
    ),
)
METRICS_BY_NAME = {metric.name: metric for metric in JOB_METRICS}


class JobMinutes(NamedTuple):
    """Values of each minute from `since` on, by name of the metric; all of the same length."""

    since: datetime
    values: Mapping[str, Values]


def series(since: datetime, until: datetime, found: Iterable[tuple[datetime, Sequence[float | None]]]) -> Values:
    """The minutes from `since` until before `until`, from runs of minutes. Of a minute that several runs have, the last
    one counts. NaN and infinity are unknown."""
    minutes: list[float | None] = [None] * max(0, (until - since) // MINUTE)
    for first, values in found:
        start = (first - since) // MINUTE
        for at, value in enumerate(values, start):
            if 0 <= at < len(minutes):
                minutes[at] = value if value is not None and math.isfinite(value) else None
    return tuple(minutes)


def in_steps(metric: JobMetric, minutes: Values, step_minutes: int) -> list[float | None]:
    """One value for each step of so many minutes, the last of which may be shorter; unknown if no minute is known."""
    steps = (minutes[at : at + step_minutes] for at in range(0, len(minutes), step_minutes))
    return [_of_step(metric, [value for value in step if value is not None]) for step in steps]


def minute_of(moment: datetime) -> datetime:
    """The minute, in UTC, in which a moment is."""
    return moment.astimezone(UTC).replace(second=0, microsecond=0)


def _of_step(metric: JobMetric, known: Sequence[float]) -> float | None:
    if not known:
        return None
    match metric.over:
        case Over.SUM | Over.MEAN:
            return sum(known) / len(known)
        case Over.EVENTS:
            return sum(known)
        case Over.WORST | Over.COUNT:
            return max(known)
