"""Waiting for a job: until it runs what was written and its first batch is done, or is stopped, or cannot get there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from penstock.cli.connection import say_written
from penstock.cli.output import say
from penstock.cli.patience import await_cluster
from penstock.control.errors import Conflict, NotFound
from penstock.model.health import AGAIN, Health
from penstock.model.jobs import JobState
from penstock.model.reports import TaskState
from penstock.wire.job_client import JobClient
from penstock.wire.jobs import JobSummary, JobView, Written
from penstock.wire.overview import SyncView, TaskView

POLL_SECONDS = 0.3
GIVEN_UP = (JobState.FAILED, JobState.QUARANTINED)
_HOST_FIRST = "a Spark host may have to start there first"
"""A container reports a task once it has a host for it."""


class Reached(NamedTuple):
    """How far a job is, in a line for people. `failed`: it does not get there without a change. `before`: what happened
    before that, and is over; to be told once."""

    line: str
    done: bool = False
    failed: bool = False
    before: str = ""


def say_and_wait(connection: JobClient, written: Written, seconds: float | None) -> None:
    """Says which write was done; with `seconds` also waits for it as `wait_for` does, and raises what that raises."""
    say_written(written)
    if seconds is not None:
        wait_for(connection, written.job, written.revision, seconds)


def wait_for(connection: JobClient, job: str, revision: int, seconds: float) -> None:
    """Says how far the job is, each line once and again where it takes long, until it has reached `revision`.

    Raises Conflict when it cannot get there, TimeoutError with what it waits for when the time is over.
    """
    said: set[str] = set()
    step = ""

    def has_ended() -> Reached | None:
        """How far the job is, once that is the end; says it until then."""
        nonlocal step
        now = reached(connection.get_job(job), connection.sync(job), connection.tasks(job).tasks, revision)
        for line in news(now, said):
            say(line)
        step = now.line
        return now if now.done or now.failed else None

    try:
        found = await_cluster(connection, has_ended, seconds, job, poll_s=POLL_SECONDS, step=lambda: step)
    except TimeoutError as error:
        raise TimeoutError(f"not done after {seconds:g} s, Penstock continues: {step}") from error
    if found is not None and found.failed:
        raise Conflict(found.line, field="job", rule="runs")


def news(now: Reached, said: set[str]) -> list[str]:
    """The lines of a moment that were not said yet; they are from now on. That of a failure is told as the error."""
    lines = [line for line in (now.before, "" if now.failed else now.line) if line and line not in said]
    said.update(lines)
    return lines


def wait_until_gone(connection: JobClient, job: str, seconds: float) -> None:
    """Waits until there is no job of this name. Raises TimeoutError."""

    def is_gone() -> bool:
        try:
            connection.get_job(job)
        except NotFound:
            return True
        return False

    await_cluster(connection, is_gone, seconds, f"{job} to go: see `penstock tasks {job}`", poll_s=POLL_SECONDS)
    say(f"{job} is gone")


def reached(job: JobView, sync: SyncView, tasks: Sequence[TaskView], revision: int) -> Reached:
    """How far a job is on its way to `revision`, or a later one. Pure."""
    name = job.job
    if sync.state in GIVEN_UP and (sync.sync_revision or 0) >= revision:
        again = (
            "; it is tried again" if sync.state == JobState.FAILED else f"; `penstock release {name}` tries it again"
        )
        return Reached(f"{name} is {sync.state}: {sync.detail or 'no reason is known'}{again}", failed=True)
    expected = [task for task in tasks if task.expected]
    if (job.running_revision or 0) < revision:
        waits_for = sync.detail or ("waits for the State Syncer" if sync.state == JobState.PENDING else "")
        return Reached(f"{name} is {sync.state}" + (f": {waits_for}" if waits_for else ""))
    if job.state == JobState.STOPPED:
        left = [task.task for task in tasks if task.container is not None]
        return Reached(f"{name} stops: {', '.join(left)}" if left else f"{name} is stopped", done=job.converged)
    if sync.rejected is not None and sync.rejected["revision"] >= revision:
        return Reached(f"{name}: its package is not healthy: {sync.rejected['error']}", failed=True)
    # A task that still runs an earlier revision shows nothing of this one.
    broken = [task for task in expected if (task.revision or 0) >= revision and _is_crashing(task)]
    if any(_is_broken(job, expected, task, revision) for task in broken):
        return Reached(_errors(broken), failed=True)
    before = f"{_errors(broken)} (it is started again)" if broken else ""
    if any(task.state == TaskState.CRASHED for task in broken):
        return Reached(before)
    if not job.converged:
        return Reached(f"{name}: {_counts(expected)}", before=before)
    has_backlog = not job.config.get("streams")
    working = [task.task for task in expected if not has_worked(task.progress, has_backlog=has_backlog)]
    if working:
        return Reached(f"{name} runs revision {job.running_revision}: {_names(working)} in the first batch")
    return Reached(f"{name} runs revision {job.running_revision}: {_result(expected)}", done=True)


def has_worked(progress: Mapping[str, Any] | None, *, has_backlog: bool = True) -> bool:
    """Whether a task has finished a batch since its start, or has nothing to read. `has_backlog`: its sources say how
    many rows are left; those of streams do not, so a task of one that has looked and found no row has nothing to read.
    """
    if progress is None:
        return False
    has_looked = not has_backlog and progress.get("input_rows") is not None
    return _has_read(progress) or has_looked or progress.get("backlog_records") == 0


def _has_read(progress: Mapping[str, Any]) -> bool:
    """Whether there were rows for a batch: of a later one it is the number that says so."""
    return bool(progress.get("batch_id") or progress.get("input_rows"))


def _is_crashing(task: TaskView) -> bool:
    return task.state == TaskState.CRASHED or bool(task.crashes and task.state != TaskState.RUNNING)


def _is_broken(job: JobSummary, expected: Iterable[TaskView], task: TaskView, revision: int) -> bool:
    """Whether a task that runs the revision crashes again and again. The job's health also knows of crashes with other
    tasks or runs in between; it is about this revision once no task runs an earlier one."""
    is_of_revision = all((each.revision or 0) >= revision for each in expected)
    return (task.crashes or 0) >= AGAIN or (is_of_revision and job.health is Health.CRASHING)


def _errors(tasks: Iterable[TaskView]) -> str:
    """The errors of tasks, each once with the first task that has it."""
    first: dict[str, str] = {}
    for task in tasks:
        first.setdefault(task.error or "no reason is known", task.task)
    return "; ".join(f"{task} crashed: {error}" for error, task in first.items())


def _counts(tasks: Sequence[TaskView]) -> str:
    states: dict[str, list[str]] = {}
    for task in tasks:
        states.setdefault(_state(task), []).append(task.task)
    running = len(states.pop(TaskState.RUNNING, ()))
    others = "".join(f", {_names(names)} {state}" for state, names in sorted(states.items()))
    return f"{running} of {len(tasks)} tasks run{others}"


def _state(task: TaskView) -> str:
    """In words, with what comes next in its start."""
    again = bool(task.crashes) and (task.progress or {}).get("batch_id") is None
    if again and task.state == TaskState.STARTING:
        return "starting again after a crash"
    if again and task.state == TaskState.RUNNING:
        return "in the first batch after a crash"
    if task.state == TaskState.STARTING:
        return "starting (its Spark host plans the query and loads its state)"
    if task.state != "unknown":
        return task.state
    if task.container is not None:
        return "without a report of its container"
    if task.owner is None:
        return "not placed yet (no container has its shard)"
    return f"given to {task.owner}, which has not reported it yet ({_HOST_FIRST})"


def _names(tasks: Sequence[str]) -> str:
    return tasks[0] if len(tasks) == 1 else f"{tasks[0]} and {len(tasks) - 1} more"


def _result(tasks: Sequence[TaskView]) -> str:
    read = [offset for task in tasks for parts in _offsets(task) for offset in parts.values()]
    has_read = any(read) or any(_has_read(task.progress or {}) for task in tasks)
    batch = "the first batch is done" if has_read else "there are no rows to read yet"
    return f"{len(tasks)} {'task' if len(tasks) == 1 else 'tasks'}, {batch}"


def _offsets(task: TaskView) -> Iterable[Mapping[str, int]]:
    """The offsets that a task has read, of each topic."""
    found: Mapping[str, Mapping[str, int]] = (task.progress or {}).get("offsets") or {}
    return found.values()
