"""From what a task reported last to a sample of its measurements; which jobs are rolled at once. Pure.

None is unknown; unknown never becomes zero.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields

from pydantic import ValidationError

from penstock.model.reports import ErrorClass, TaskProgress, TaskState
from penstock.tasks.lag import MEASURED, lag_of
from services.task_service.store.rows import ReportedTask, TaskSample

_UNKNOWN = TaskProgress()
_MEASURED = {field.name for field in fields(TaskSample)} & TaskProgress.model_fields.keys()
_MOST_TASKS = 2**31 - 1


def least_lag_seconds(progress: TaskProgress) -> float | None:
    """How far a task is behind its input, in seconds, or what it is at least; None when nothing is known of it."""
    lag = lag_of(*(getattr(progress, name) for name in MEASURED))
    return lag.at_least


def sample(task: ReportedTask) -> TaskSample:
    """The sample of a task. The progress of a task that does not run is old, so all its values are unknown. So are
    those of a row that another version wrote, and a value that no column can hold: no task spoils the others' samples.
    A crash before a change that the task has not started with yet says nothing about the change.
    """
    is_running = task.state == TaskState.RUNNING
    progress = _read(task.progress) if is_running and task.progress else _UNKNOWN
    return TaskSample(
        job=task.job,
        index=task.number,
        out_of_memory=task.out_of_memory and task.is_of_running is not False,
        lag_seconds=least_lag_seconds(progress),
        cpu_cores=_amount(task.cpu_cores) if is_running else None,
        memory_bytes=_amount(task.memory_bytes) if is_running else None,
        running=is_running,
        crashes=task.crashes,
        task_count=task_count(task.task_count),
        key_group_backlog_records=_greatest(progress.key_group_backlogs),
        **{f"errors_{each}": count for each, count in _by_class(task.errors).items()},
        **{name: getattr(progress, name) for name in _MEASURED},
    )


def _by_class(errors: Mapping[str, int]) -> dict[ErrorClass, int]:
    """Of every class; one that is not told, or that a newer release knows, is another one."""
    counts = dict.fromkeys(ErrorClass, 0)
    for name, count in errors.items():
        known = ErrorClass(name) if name in set(ErrorClass) else ErrorClass.OTHER
        counts[known] += count
    return counts


def _greatest(backlogs: Mapping[str, int] | None) -> int | None:
    """The backlog of the key group that has most; 0 when it is known that none has any."""
    return None if backlogs is None else max(backlogs.values(), default=0)


def _read(progress: str) -> TaskProgress:
    try:
        return TaskProgress.model_validate_json(progress)
    except ValidationError:
        return _UNKNOWN


def task_count(stored: object) -> int | None:
    """The number of tasks in a running configuration, which another version may have written; None: unknown."""
    if isinstance(stored, bool) or not isinstance(stored, int):
        return None
    return stored if 0 <= stored <= _MOST_TASKS else None


def page_of(jobs: Sequence[tuple[str, int | None]], most_tasks: int) -> list[str]:
    """As many of the jobs, each with its number of tasks, as have at most so many tasks together; at least the first.

    The number of a job that is unknown counts as one.
    """
    page: list[str] = []
    tasks = 0
    for job, count in jobs:
        tasks += 1 if count is None else count
        if page and tasks > most_tasks:
            break
        page.append(job)
    return page


def _amount(stored: object) -> float | None:
    if isinstance(stored, bool) or not isinstance(stored, int | float):
        return None
    return float(stored) if math.isfinite(stored) else None
