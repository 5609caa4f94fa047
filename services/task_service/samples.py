"""A task's report to a sample of its measurements. Pure; None is unknown, and unknown never becomes zero."""

from __future__ import annotations

from penstock.tasks.stored import TaskSample
from penstock.wire.cluster import TaskProgress, TaskReport, TaskState

_UNKNOWN = TaskProgress()


def lag_seconds(progress: TaskProgress) -> float | None:
    """How far a task is behind its input, in seconds; None when it cannot be told.

    The age of the oldest unread record where that is known, else the time to work off the backlog at the present
    rate (002 section V-A: lag = backlog / processing rate). A backlog that is not being worked off has no known lag.
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
    """The sample of a report; a task that does not run keeps old progress that says nothing about now."""
    is_running = report.state is TaskState.RUNNING
    progress = report.progress if report.progress is not None and is_running else _UNKNOWN
    return TaskSample(
        job=report.job,
        index=report.index,
        input_rows_per_second=progress.input_rows_per_second,
        processed_rows_per_second=progress.processed_rows_per_second,
        input_bytes_per_second=progress.input_bytes_per_second,
        backlog_records=progress.backlog_records,
        backlog_bytes=progress.backlog_bytes,
        lag_seconds=lag_seconds(progress),
        state_rows=progress.state_rows,
        state_memory_bytes=progress.state_memory_bytes,
        batch_seconds=progress.batch_seconds,
        out_of_memory=report.out_of_memory,
    )
