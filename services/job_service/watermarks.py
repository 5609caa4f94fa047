"""Tasks whose last windows wait for newer rows that may never come to them. Pure.

Each task has a watermark of its own, which only its own key groups advance. When these get no newer rows, what is open
stays in the state, although the job's other tasks have long written theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from penstock.model.reports import TaskState
from penstock.wire.overview import TaskView

LEAST_SECONDS = 60.0
"""Tasks with rows of their own are as far apart as their batches are."""
_NONE_YET = datetime(1970, 1, 1, tzinfo=UTC)


def with_waiting(tasks: Sequence[TaskView]) -> list[TaskView]:
    """The tasks of a job, with `watermark_behind_seconds` of those that wait."""
    known = {id(task): _watermark(task) for task in tasks}
    greatest = max((each for each in known.values() if each is not None), default=None)
    return [_with(task, known[id(task)], greatest) for task in tasks]


def _with(task: TaskView, watermark: datetime | None, greatest: datetime | None) -> TaskView:
    if watermark is None or greatest is None or not _has_read_all(task):
        return task
    behind = greatest - watermark
    if behind < timedelta(seconds=LEAST_SECONDS):
        return task
    return task.model_copy(update={"watermark_behind_seconds": behind.total_seconds()})


def _has_read_all(task: TaskView) -> bool:
    """Whether a task has no more rows to read, and keeps something. What is unknown is neither."""
    progress = task.progress or {}
    return progress.get("backlog_records") == 0 and (progress.get("state_rows") or 0) > 0


def _watermark(task: TaskView) -> datetime | None:
    """None when the task does not run now, or has seen no event time yet."""
    text = (task.progress or {}).get("watermark")
    if task.state != TaskState.RUNNING or not task.expected or not isinstance(text, str):
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None and found > _NONE_YET else None
