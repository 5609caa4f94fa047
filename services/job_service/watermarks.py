"""Tasks whose last windows wait for newer rows that may never come to them. Pure.

Each task has a watermark of its own, which only its own key groups advance. When these get no newer rows, what is open
stays in the state, although the job's other tasks have long written theirs.

The configuration does not tell what a Python query keeps, nor whether the rows that a query with GROUP BY or JOIN keeps
are of open windows. Tasks of such jobs are named when they keep anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from penstock.config.event_time import delay_millis
from penstock.config.sql import brings_rows_together
from penstock.model.reports import TaskState
from penstock.wire.overview import TaskView

LEAST_SECONDS = 60.0
"""Tasks with rows of their own are as far apart as a few of their batches are."""
_BATCHES = 3
_NONE_YET = datetime(1970, 1, 1, tzinfo=UTC)


def with_waiting(tasks: Sequence[TaskView], config: Mapping[str, Any] | None) -> list[TaskView]:
    """The tasks of a job, with `watermark_behind_seconds` of those that wait. `config`: what runs, if anything."""
    if config is None or not _may_wait(config):
        return list(tasks)
    least = _least(config)
    known = {id(task): _watermark(task) for task in tasks}
    greatest = max((each for each in known.values() if each is not None), default=None)
    return [_with(task, known[id(task)], greatest, least) for task in tasks]


def _may_wait(config: Mapping[str, Any]) -> bool:
    """Whether the query may keep rows until a watermark passes them. Other output modes write results before that."""
    sql = (config.get("query") or {}).get("sql")
    return config.get("output_mode", "append") == "append" and (sql is None or brings_rows_together(sql))


def _least(config: Mapping[str, Any]) -> timedelta:
    """A task may be so far behind for a while although rows come to it, or although the clock will advance it."""
    inputs = config.get("inputs", {}).values()
    idle = [source.get("idle_timeout_seconds") or 0.0 for source in inputs]
    delays = [delay_millis(source["watermark_delay"]) / 1000 for source in inputs if source.get("watermark_delay")]
    batches = _BATCHES * config.get("trigger_interval_seconds", 0.0)
    return timedelta(seconds=max(LEAST_SECONDS, batches, *idle, *delays))


def _with(task: TaskView, watermark: datetime | None, greatest: datetime | None, least: timedelta) -> TaskView:
    if watermark is None or greatest is None or not _has_read_all(task):
        return task
    behind = greatest - watermark
    if behind < least:
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
