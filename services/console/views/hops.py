"""The way of a job's newest revision: written, planned, committed, run by its tasks. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from penstock.model.jobs import JobState
from penstock.model.reports import TaskState
from penstock.wire.jobs import JobView
from penstock.wire.overview import SyncView, TaskView


class Progress(StrEnum):
    """How far a hop is."""

    DONE = "done"
    NOW = "now"
    WAITS = "waits"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Hop:
    """A step on the way; `at`: when it was done, None where that is unknown or it is not done."""

    title: str
    progress: Progress
    text: str
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class PlanStep:
    """A step of the recorded plan."""

    name: str
    progress: Progress


def hops(job: JobView, sync: SyncView, tasks: Sequence[TaskView]) -> list[Hop]:
    """The steps of the newest revision. Exactly one is under way or failed, unless the job has converged."""
    is_committed = job.running_revision is not None and job.running_revision >= job.revision
    has_failed = job.state in (JobState.FAILED, JobState.QUARANTINED)
    planned = _planned(job, sync, is_committed=is_committed, has_failed=has_failed)
    committed = Progress.DONE if is_committed else Progress.NOW if planned.progress is Progress.DONE else Progress.WAITS
    running, expected = _running(job, tasks)
    runs = Progress.WAITS if not is_committed else Progress.DONE if job.converged else Progress.NOW
    return [
        _written(job),
        planned,
        Hop("committed", committed, _committed_text(job), sync.committed_at if is_committed else None),
        Hop("tasks run it", runs, _running_text(job, running, expected) if is_committed else ""),
        Hop("converged", Progress.DONE if job.converged else Progress.WAITS, "yes" if job.converged else "not yet"),
    ]


def _written(job: JobView) -> Hop:
    newest = max(job.layers, key=lambda layer: layer.revision or 0, default=None)
    if newest is None or newest.revision != job.revision:
        return Hop("written", Progress.DONE, f"revision {job.revision}")
    return Hop(
        "written", Progress.DONE, f"revision {job.revision}, {newest.layer} by {newest.author}", newest.written_at
    )


def _planned(job: JobView, sync: SyncView, *, is_committed: bool, has_failed: bool) -> Hop:
    if is_committed:
        return Hop("planned", Progress.DONE, "")
    kind = f"{sync.change_kind} change" if sync.change_kind else ""
    if has_failed:
        return Hop("planned", Progress.FAILED, sync.detail or job.detail or job.state)
    if job.state is JobState.PENDING:
        return Hop("planned", Progress.NOW, "waits for the State Syncer")
    if job.state in (JobState.WAITING, JobState.QUEUED):
        return Hop("planned", Progress.NOW, sync.detail or job.state)
    return Hop("planned", Progress.DONE, kind)


def _committed_text(job: JobView) -> str:
    return "never" if job.running_revision is None else f"runs revision {job.running_revision}"


def _running(job: JobView, tasks: Sequence[TaskView]) -> tuple[int, int]:
    expected = [task for task in tasks if task.expected]
    by_index = {task.index for task in expected}
    of_revision = (job.running_revision, job.generation)
    run = {
        task.index
        for task in expected
        if task.state == TaskState.RUNNING and (task.revision, task.generation) == of_revision
    }
    return len(run), len(by_index)


def _running_text(job: JobView, running: int, expected: int) -> str:
    return "stopped" if job.state is JobState.STOPPED else f"{running} of {expected} tasks"


def plan_steps(sync: SyncView) -> list[PlanStep]:
    """The steps of the recorded plan, with the one that is under way; none without a plan."""
    plan: Any = sync.plan
    steps = plan.get("steps") if isinstance(plan, dict) else None
    if not isinstance(steps, list):
        return []
    now = sync.step or 0
    return [PlanStep(_name(step), _progress(number, now)) for number, step in enumerate(steps)]


def _progress(number: int, now: int) -> Progress:
    if number == now:
        return Progress.NOW
    return Progress.DONE if number < now else Progress.WAITS


def _name(step: Any) -> str:
    if isinstance(step, dict):
        return str(step.get("name") or step.get("step") or step.get("kind") or step)
    return str(step)
