"""From what a task reported last to a sample of its measurements. Pure. None is unknown; unknown never becomes zero."""

from __future__ import annotations

from pydantic import ValidationError

from penstock.model.reports import TaskProgress, TaskState
from penstock.tasks.lag import lag_of
from services.task_service.store.rows import MEASUREMENTS, ReportedTask, TaskSample

_UNKNOWN = TaskProgress()
_MEASURED = MEASUREMENTS.keys() - {"lag_seconds"}


def least_lag_seconds(progress: TaskProgress) -> float | None:
    """How far a task is behind its input, in seconds, or what it is at least; None when nothing is known of it."""
    lag = lag_of(progress.backlog_records, progress.processed_rows_per_second, progress.oldest_unread_seconds)
    return lag.at_least


def sample(task: ReportedTask) -> TaskSample:
    """The sample of a task. The progress of a task that does not run is old, so all its values are unknown. So are
    those of a row that another version wrote, and a value that no column can hold: no task spoils the others' samples.
    """
    progress = _read(task.progress) if task.state == TaskState.RUNNING and task.progress else _UNKNOWN
    return TaskSample(
        job=task.job,
        index=task.number,
        out_of_memory=task.out_of_memory,
        lag_seconds=least_lag_seconds(progress),
        **progress.model_dump(include=_MEASURED),
    )


def _read(progress: str) -> TaskProgress:
    try:
        return TaskProgress.model_validate_json(progress)
    except ValidationError:
        return _UNKNOWN
