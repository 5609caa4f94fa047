"""From a task's report to a sample of its measurements. Pure. None is unknown; unknown never becomes zero."""

from __future__ import annotations

from penstock.model.reports import TaskProgress, TaskReport, TaskState
from services.task_service.store.rows import MEASUREMENTS, TaskSample

_UNKNOWN = TaskProgress()
_MEASURED = MEASUREMENTS.keys() - {"lag_seconds"}


def lag_seconds(progress: TaskProgress) -> float | None:
    """How far a task is behind its input, in seconds; None when it is unknown.

    This is the age of the oldest unread record. Where that is unknown, it is the time to process the backlog at the
    present rate (002 section V-A: lag = backlog / processing rate). At rate zero the lag of a backlog is unknown.
    """
    if progress.oldest_unread_seconds is not None:
        return progress.oldest_unread_seconds
    if progress.backlog_records is None:
        return None
    if progress.backlog_records == 0:
        return 0.0
    rate = progress.processed_rows_per_second
    return progress.backlog_records / rate if rate else None


def sample(report: TaskReport) -> TaskSample:
    """The sample of a report. The progress of a task that does not run is old, so all its values are unknown."""
    is_running = report.state is TaskState.RUNNING
    progress = report.progress if report.progress is not None and is_running else _UNKNOWN
    measured = progress.model_dump(include=_MEASURED)
    return TaskSample(
        job=report.job,
        index=report.index,
        out_of_memory=report.out_of_memory,
        lag_seconds=lag_seconds(progress),
        **measured,
    )
