"""What tables say of a task: its state, what it measured, its error. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.cli.output import cell, figure, measured
from penstock.model.reports import TaskState
from penstock.wire.overview import TaskView

FIGURES = ("backlog", "lag s", "rows/s")
"""The headings of `figures_of`."""


def state_of(task: TaskView) -> str:
    """With the time since when nothing is known of a task that was reported."""
    is_known = task.state not in ("lost", "unknown") or task.reported_at is None
    if task.state == TaskState.RUNNING and (task.progress or {}).get("batch_id") is None:
        return f"{task.state}, no batch yet"
    return task.state if is_known else f"{task.state}, last report {cell(task.reported_at)}"


def by_error(tasks: Iterable[TaskView]) -> dict[str, list[str]]:
    """Whole errors, each with the tasks that have it."""
    found: dict[str, list[str]] = {}
    for task in tasks:
        if task.error:
            found.setdefault(task.error, []).append(task.task)
    return found


def figures_of(task: TaskView) -> tuple[str, str, str]:
    """What it measured: of what is not known, `unknown`."""
    progress = task.progress or {}
    backlog, rate = progress.get("backlog_records"), progress.get("input_rows_per_second")
    return figure(backlog), measured(task.lag_seconds), measured(rate)
