"""From a task's report to a sample of its measurements. Pure. None is unknown; unknown never becomes zero."""

from __future__ import annotations

from penstock.model.reports import TaskProgress, TaskReport, TaskState
from penstock.tasks.lag import lag_of
from services.task_service.store.rows import MEASUREMENTS, TaskSample

_UNKNOWN = TaskProgress()
_MEASURED = MEASUREMENTS.keys() - {"lag_seconds"}


def least_lag_seconds(progress: TaskProgress) -> float | None:
    """How far a task is behind its input, in seconds, or what it is at least; None when nothing is known of it."""
    lag = lag_of(progress.backlog_records, progress.processed_rows_per_second, progress.oldest_unread_seconds)
    return lag.at_least


def sample(report: TaskReport) -> TaskSample:
    """The sample of a report. The progress of a task that does not run is old, so all its values are unknown."""
    is_running = report.state is TaskState.RUNNING
    progress = report.progress if report.progress is not None and is_running else _UNKNOWN
    measured = progress.model_dump(include=_MEASURED)
    return TaskSample(
        job=report.job,
        index=report.index,
        out_of_memory=report.out_of_memory,
        lag_seconds=least_lag_seconds(progress),
        **measured,
    )
