"""The way of a revision: written, planned, committed, run by its tasks. The CLI and the console tell it in these words.
Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from penstock.model.jobs import JobState
from penstock.model.reports import TaskState
from penstock.wire.jobs import HistoryEntry, JobView, LayerVersion
from penstock.wire.overview import SyncView, TaskView


class Progress(StrEnum):
    """How far a stage is."""

    DONE = "done"
    NOW = "now"
    WAITS = "waits"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of the way; `at`: when it was done, None where that is unknown or it is not done."""

    title: str
    progress: Progress
    text: str
    at: datetime | None = None

    @property
    def line(self) -> str:
        """It as a line of text."""
        return f"{self.title}: {self.text}" if self.text else self.title


@dataclass(frozen=True, slots=True)
class PlanStep:
    """A step of the recorded plan."""

    name: str
    progress: Progress


def stages(
    job: JobView,
    sync: SyncView,
    tasks: Sequence[TaskView],
    revision: int | None = None,
    entry: HistoryEntry | None = None,
) -> list[Stage]:
    """The stages of a revision, by default the newest. Exactly one is under way or failed, unless the job has
    converged. `entry`: the revision in the history, which also knows writes to no layer."""
    asked = revision or job.revision
    is_committed = job.running_revision is not None and job.running_revision >= asked
    planned = _planned(job, sync, asked, is_committed=is_committed)
    committed = Progress.DONE if is_committed else Progress.NOW if planned.progress is Progress.DONE else Progress.WAITS
    runs = Progress.WAITS if not is_committed else Progress.DONE if job.converged else Progress.NOW
    return [
        _written(job, asked, entry),
        planned,
        Stage("committed", committed, _committed_text(job, is_committed), sync.committed_at if is_committed else None),
        Stage("tasks run it", runs, _running_text(job, tasks) if is_committed else ""),
        Stage("converged", Progress.DONE if job.converged else Progress.WAITS, "yes" if job.converged else "not yet"),
    ]


def written_text(revision: int, layer: str | None, author: str) -> str:
    """Which write a revision is, and whose."""
    return f"revision {revision}{f', {layer}' if layer else ''} by {author}"


def layer_written(job: JobView, revision: int) -> LayerVersion | None:
    """The layer that has been as it is since a revision; None for a write to no layer, such as a restore."""
    return next((each for each in job.layers if each.revision == revision), None)


def _written(job: JobView, revision: int, entry: HistoryEntry | None) -> Stage:
    if entry is not None:
        return Stage("written", Progress.DONE, written_text(revision, entry.layer, entry.author), entry.at)
    layer = layer_written(job, revision)
    if layer is None:
        return Stage("written", Progress.DONE, f"revision {revision}")
    text = written_text(revision, layer.layer, layer.author or "somebody")
    return Stage("written", Progress.DONE, text, layer.written_at)


def _planned(job: JobView, sync: SyncView, revision: int, *, is_committed: bool) -> Stage:
    if is_committed:
        return Stage("planned", Progress.DONE, "")
    if sync.sync_revision is not None and sync.sync_revision < revision:
        is_busy = sync.state in (JobState.RESCALING, JobState.RESTORING, JobState.ROLLING)
        before = f" (revision {sync.sync_revision} is {sync.state})" if is_busy else ""
        return Stage("planned", Progress.NOW, f"waits for the State Syncer{before}")
    if job.state in (JobState.FAILED, JobState.QUARANTINED):
        return Stage("planned", Progress.FAILED, sync.detail or job.detail or job.state)
    if job.state is JobState.PENDING:
        return Stage("planned", Progress.NOW, "waits for the State Syncer")
    if job.state in (JobState.WAITING, JobState.QUEUED):
        return Stage("planned", Progress.NOW, sync.detail or job.state)
    return Stage("planned", Progress.DONE, change_in_words(sync))


def change_in_words(sync: SyncView) -> str:
    """What is under way: a restore, or a change of some kind; empty when that is not known."""
    savepoint = _restored(sync)
    if savepoint is None:
        return f"{sync.change_kind} change" if sync.change_kind else ""
    name, owner = savepoint.get("name"), savepoint.get("job")
    return f"restore of savepoint {name}" + ("" if owner in (None, sync.job) else f" of {owner}")


def _restored(sync: SyncView) -> Mapping[str, Any] | None:
    """The savepoint of the plan that is recorded; None for a plan that is no restore."""
    restore = sync.plan.get("restore") if isinstance(sync.plan, dict) else None
    savepoint = restore.get("savepoint") if isinstance(restore, dict) else None
    return savepoint if isinstance(savepoint, dict) else None


def _committed_text(job: JobView, is_committed: bool) -> str:
    if job.running_revision is None:
        return "never"
    if job.state is JobState.STOPPED:
        return f"revision {job.running_revision}, stopped"
    generation = "" if job.generation is None else f" as generation {job.generation}"
    return f"{'' if is_committed else 'still '}runs revision {job.running_revision}{generation}"


def _running_text(job: JobView, tasks: Sequence[TaskView]) -> str:
    """How many tasks run what is committed. A task that nobody reports is counted as unknown."""
    if job.state is JobState.STOPPED:
        return "stopped"
    expected = [task for task in tasks if task.expected]
    of_revision = (job.running_revision, job.generation)
    run = {
        task.index
        for task in expected
        if task.state == TaskState.RUNNING and (task.revision, task.generation) == of_revision
    }
    unknown = {task.index for task in expected if task.state == "unknown"} - run
    all_of_them = {task.index for task in expected}
    return f"{len(run)} of {len(all_of_them)} tasks" + (f", {len(unknown)} unknown" if unknown else "")


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
    named = (step.get("name") or step.get("step") or step.get("kind") or step) if isinstance(step, dict) else step
    return str(named).replace("_", " ")
