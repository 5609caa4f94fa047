"""How well a job runs: its health with the reason, and whether it has converged. Pure.

The facts are rows of the store (`penstock.store.health`). A fact that is unknown is None. It never makes a job
healthy.

A container is silent when it has not reported for `SILENT`. This is shown, and the State Syncer takes rescales back by
it. Who runs a task, and who may take it over, follows the leases.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple, Protocol

from penstock.model.alert_rules import limit_of
from penstock.model.alerts import AlertKind
from penstock.model.reports import TaskState
from penstock.model.states import Health as Health
from penstock.model.states import JobState, failure_before
from penstock.tasks.lag import MEASURED, lag_of

SILENT = timedelta(seconds=12)
"""Twice the longest time between two reports of a container where nothing is new."""
AFTER_REPORT = timedelta(seconds=7)
"""A heartbeat so long after the last report shows that the container lives, and only its reports are missing."""
START = timedelta(minutes=3)
"""So long after a commit nobody need report a task yet: its host may be starting."""
AGAIN = int(limit_of(AlertKind.TASK_CRASHING))
"""So many crashes, each soon after the one before, are a task that crashes again and again."""
CRASHES_KEPT = 5
"""The store keeps the times of so many crashes of a task since its last restart, the newest."""
SOON = timedelta(minutes=15)
WELL = timedelta(minutes=1)
HELD_BACK_SECONDS = limit_of(AlertKind.HELD_BACK)
_MOST_REASON = 2000


# The first of these that some task has is the job's.
GRAVEST = (
    Health.CRASHING,
    Health.QUARANTINED,
    Health.STOPPED,
    Health.HELD,
    Health.LAGGING,
    Health.UNKNOWN,
    Health.STARTING,
    Health.HEALTHY,
)


class Heard(StrEnum):
    """What the last report of a container is worth now."""

    PRESENT = "present"
    LOST = "lost"
    UNKNOWN = "unknown"


class Sighting(Protocol):
    """When a container was heard. `alive_at`: its newest heartbeat, or renewal of its lease. `failed_over`: the Shard
    Manager has declared it lost."""

    @property
    def reported_at(self) -> datetime: ...
    @property
    def alive_at(self) -> datetime | None: ...
    @property
    def failed_over(self) -> bool: ...


class Moment(NamedTuple):
    """When the facts were read. `heard_at`: the newest report of any container; None without one."""

    now: datetime
    heard_at: datetime | None


@dataclass(frozen=True, slots=True)
class JobFacts:
    """A job, its running configuration and its sync state. `detail`: what the State Syncer reports of it.

    `failures`: of the present revision, in a row. `mixed`: a rollout has not upgraded all tasks. `stopping`: no task
    may run, by a plan or a deletion. `wants_tasks`: the running configuration asks for tasks; None when there is none.
    """

    job: str
    owner: str
    state: JobState
    revision: int
    restarts: int
    running_revision: int | None
    generation: int | None
    committed_at: datetime | None
    mixed: bool
    stopping: bool
    wants_tasks: bool | None
    task_count: int
    max_lag_seconds: float
    detail: str
    failures: int = 0


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """A task as its container reported it last, and its crashes wherever it ran. `crashes` are in a row, here.

    `unreadable_input`: which input the task cannot read on, and why; None also where Kafka did not say. `late_rows`:
    that it drops late rows; None also where the job declares that.
    `run` names all that restarts the task when it changes, `crash_run` the same of what crashed last.
    """

    job: str
    index: int
    container: str
    state: str
    revision: int
    generation: int
    epoch: int
    crashes: int
    error: str | None
    reported_at: datetime
    alive_at: datetime | None
    failed_over: bool
    batch_id: int | None = None
    backlog_records: int | None = None
    processed_rows_per_second: float | None = None
    oldest_unread_seconds: float | None = None
    oldest_unread_at_most_seconds: float | None = None
    held_back_by: str | None = None
    held_back_seconds: float | None = None
    silent_seconds: float | None = None
    unreadable_input: str | None = None
    late_rows: str | None = None
    crashed_at: Sequence[datetime] | None = None
    crash_revision: int | None = None
    crash_error: str | None = None
    crash_run: str | None = None
    run: str | None = None


class Verdict(NamedTuple):
    """`health`: the gravest of `reasons`, which has each health that some task, or the job as a whole, has.

    A reason is whole; its first line is enough for a list. It is empty when there is nothing to report. That of a
    healthy job is that it drops late rows.
    """

    health: Health
    reasons: Mapping[Health, str]
    converged: bool

    @property
    def reason(self) -> str:
        """Why the job has its health."""
        return self.reasons[self.health]


class _TaskHealth(NamedTuple):
    """`weight`: of the tasks with the same health, the one with the greatest tells the reason; crashes in a row, and
    then seconds behind, held back or since the last report."""

    health: Health
    reason: str = ""
    weight: tuple[float, float] = (0, 0)


def heard(container: Sighting, moment: Moment) -> Heard:
    """PRESENT: reported lately. LOST: failed over, or silent while others report. UNKNOWN: alive, but its reports do
    not arrive; or nobody's do."""
    if container.failed_over:
        return Heard.LOST
    if moment.now - container.reported_at <= SILENT:
        return Heard.PRESENT
    if container.alive_at is not None and container.alive_at > container.reported_at + AFTER_REPORT:
        return Heard.UNKNOWN
    others_report = moment.heard_at is not None and moment.now - moment.heard_at <= SILENT
    return Heard.LOST if others_report else Heard.UNKNOWN


def is_lost(name: str, container: Sighting) -> str:
    """Why nothing is known of a task whose container is lost, and what it waits for. No time in it grows, so that the
    reason stays the same from one look to the next."""
    if container.failed_over:
        return f"its container {name} is lost, and the one that takes over has not reported it yet: {_HOST_FIRST}"
    heard_at = max(container.reported_at, container.alive_at or container.reported_at)
    return (
        f"its container {name} is lost: nothing was heard of it since {heard_at:%H:%M:%S} UTC. Another one takes over "
        "once it has been silent for the fail-over time (60 s by default)"
    )


_HOST_FIRST = "a Spark host may have to start there first"


def host_is_silent(silent_seconds: float) -> str:
    """Why nothing is known of a task whose container reports, but not its Spark host."""
    return f"its Spark host has said nothing for {silent_seconds:,.0f} s"


def runs_well(state: str, batch_id: int | None) -> bool:
    """Whether a task runs and has finished a batch since its start. What it crashed with before is over then."""
    return state == TaskState.RUNNING and batch_id is not None


def crashes_again(task: TaskFacts, now: datetime) -> bool:
    """Whether a task crashes again and again.

    The store keeps its newest crashes. At least three, each within 15 minutes of the one before, are a series. The
    series goes on until the task has run well for twice the longest time between two of them, and for a minute; or
    until it was restarted for a change. A change that the running task takes over ends no series.
    """
    if task.crashes >= AGAIN and not runs_well(task.state, task.batch_id):
        return True
    times = tuple(task.crashed_at or ())[-AGAIN:]
    if len(times) < AGAIN or _is_changed_since(task):
        return False
    gaps = [after - before for before, after in pairwise(times)]
    if max(gaps) > SOON:
        return False
    return now - times[-1] < max(WELL, 2 * max(gaps)) or not runs_well(task.state, task.batch_id)


def _is_changed_since(task: TaskFacts) -> bool:
    """Whether the task was restarted for a change since it crashed. Where that is unknown, a newer revision is one."""
    if task.crash_run is not None and task.run is not None:
        return task.crash_run != task.run
    return task.crash_revision is None or task.crash_revision < task.revision


def verdict(job: JobFacts, reported: Iterable[TaskFacts], moment: Moment) -> Verdict:
    """The health of a job with its reason, and whether it has converged. `reported`: all its tasks that are reported.

    Converged: the running configuration is the expected one, and each task runs its revision and generation on a
    container and a Spark host that are heard. A task that crashed counts again when it has finished a batch since. A
    stopped job is converged when no container that is not lost reports a task of it.
    """
    tasks = list(reported)
    of_job = _of_job(job)
    of_tasks = {index: _of_task(job, task, moment) for index, task in _expected(job, tasks, moment).items()}
    reasons = _reasons(of_tasks) | ({} if of_job is None else {of_job.health: of_job.reason[:_MOST_REASON]})
    health = next(each for each in GRAVEST if each in reasons)
    return Verdict(health, reasons, _converged(job, tasks, moment))


def _of_job(job: JobFacts) -> _TaskHealth | None:
    """The health of the job as a whole; None when its tasks alone say it."""
    if job.state is JobState.DELETING:
        return _TaskHealth(Health.STOPPED, "the job is being deleted")
    if job.state is JobState.QUARANTINED:
        return _TaskHealth(Health.QUARANTINED, job.detail)
    if job.wants_tasks is None:
        return _of_first_attempt(job)
    if not job.wants_tasks:
        return _TaskHealth(Health.STOPPED)
    if job.stopping:
        return _TaskHealth(Health.STARTING, f"its tasks are stopped for a change: {job.detail or job.state}")
    # A running configuration asks for at least one task. Without any, nothing is known.
    return None if job.task_count > 0 else _TaskHealth(Health.UNKNOWN, "its running configuration has no task")


def _of_first_attempt(job: JobFacts) -> _TaskHealth:
    """Of a job that was never committed. One that failed is held, also while it is tried again."""
    if job.state is JobState.FAILED:
        return _TaskHealth(Health.HELD, job.detail)
    if job.failures:
        times = "once" if job.failures == 1 else f"{job.failures} times"
        told = f"its first configuration failed {times}, and is tried again now"
        # Without that part the detail tells only what the present attempt waits for.
        return _TaskHealth(Health.HELD, f"{told}: {failure_before(job.detail) or 'no reason is known'}")
    return _TaskHealth(Health.STARTING, job.detail or "the State Syncer has not committed the job yet")


def _expected(job: JobFacts, tasks: Iterable[TaskFacts], moment: Moment) -> Mapping[int, TaskFacts | None]:
    """By index of the tasks that should run: the report that counts, of a container that is heard if there is one."""
    runs = job.wants_tasks and not job.stopping and job.state is not JobState.DELETING
    found: dict[int, TaskFacts | None] = dict.fromkeys(range(job.task_count if runs else 0))
    for task in sorted(tasks, key=lambda task: (heard(task, moment) is Heard.PRESENT, task.epoch)):
        if task.index in found:
            found[task.index] = task
    return found


def _of_task(job: JobFacts, task: TaskFacts | None, moment: Moment) -> _TaskHealth:
    if task is None:
        if job.committed_at is not None and moment.now - job.committed_at < START:
            told = f"waits for its start: committed at {job.committed_at:%H:%M:%S} UTC, and no container reports it yet"
            return _TaskHealth(Health.STARTING, told)
        return _TaskHealth(Health.UNKNOWN, "is reported by no container", (2, 0))
    if crashes_again(task, moment.now):
        why = f"crashes again and again: {task.error or task.crash_error or 'unknown'}"
        return _TaskHealth(Health.CRASHING, why, (task.crashes, len(task.crashed_at or ())))
    match heard(task, moment):
        case Heard.LOST:
            return _TaskHealth(Health.UNKNOWN, is_lost(task.container, task), _silence(task, moment))
        case Heard.UNKNOWN:
            why = f"reports of its container {task.container} do not arrive"
            return _TaskHealth(Health.UNKNOWN, why, _silence(task, moment))
    if task.state == TaskState.HELD:
        return _TaskHealth(Health.HELD, task.error or "its container must not run it", (1, 0))
    if task.silent_seconds is not None:
        return _TaskHealth(Health.UNKNOWN, host_is_silent(task.silent_seconds), (1, task.silent_seconds))
    if task.unreadable_input is not None and task.state == TaskState.RUNNING:
        return _TaskHealth(Health.HELD, f"cannot read on: {task.unreadable_input}", (1, 0))
    if task.held_back_by is not None and (task.held_back_seconds or 0.0) >= HELD_BACK_SECONDS:
        why = f"waits for {task.held_back_by}, which writes to its input"
        return _TaskHealth(Health.HELD, why, (0, task.held_back_seconds or 0.0))
    return _of_running(job, task)


def _silence(task: TaskFacts, moment: Moment) -> tuple[float, float]:
    return 1, (moment.now - task.reported_at).total_seconds()


def _of_running(job: JobFacts, task: TaskFacts) -> _TaskHealth:
    lag = lag_of(*(getattr(task, name) for name in MEASURED))
    if task.state == TaskState.RUNNING and lag.at_least is not None and lag.at_least > job.max_lag_seconds:
        why = f"is {lag.at_least:,.0f} s behind; its SLO is {job.max_lag_seconds:,.0f} s"
        return _TaskHealth(Health.LAGGING, why, (0, lag.at_least))
    if not runs_well(task.state, task.batch_id):
        return _TaskHealth(Health.STARTING, _why_not_yet(task), (task.crashes, 0))
    is_sure = lag.seconds is not None or (lag.at_most is not None and lag.at_most <= job.max_lag_seconds)
    if not is_sure:
        return _TaskHealth(Health.UNKNOWN, _why_unmeasured(task))
    return (
        _TaskHealth(Health.HEALTHY) if task.late_rows is None else _TaskHealth(Health.HEALTHY, task.late_rows, (1, 0))
    )


def _why_unmeasured(task: TaskFacts) -> str:
    why = "runs, and how far it is behind is unknown"
    if task.backlog_records is None:
        return f"{why}: it has not told how many rows wait"
    if task.processed_rows_per_second is None:
        return f"{why} yet: rows wait, and no batch since its start shows how fast it works"
    return f"{why}: rows wait, and it has processed none in the last minute"


def _why_not_yet(task: TaskFacts) -> str:
    if task.state == TaskState.CRASHED:
        return f"crashed, and will start again: {task.error or 'unknown'}"
    why = "has not finished a batch since its start" if task.state == TaskState.RUNNING else f"is {task.state}"
    if task.state == TaskState.STARTING:
        why = f"{why}: its Spark host begins the query and loads its state"
    return f"{why}; it crashed before: {task.error or 'unknown'}" if task.crashes else why


def _reasons(tasks: Mapping[int, _TaskHealth]) -> dict[Health, str]:
    """By health: the reason of the task that has it with the greatest weight, and the number of others.

    Crashing, starting: the most crashes. Lagging: the furthest behind. Held: by its container, then the longest held
    back. Unknown: not reported, then the longest silent, then the others. Among equals the lowest index.
    """
    by_health: dict[Health, list[int]] = {}
    for index in sorted(tasks):
        by_health.setdefault(tasks[index].health, []).append(index)
    worst = {health: max(indices, key=lambda index: tasks[index].weight) for health, indices in by_health.items()}
    told = {health: sum(bool(tasks[index].reason) for index in indices) for health, indices in by_health.items()}
    return {health: _reason(index, tasks[index].reason, told[health] - 1) for health, index in worst.items()}


def _reason(index: int, reason: str, others_count: int) -> str:
    if not reason:
        return ""
    first, _, more = f"task {index}: {reason}"[:_MOST_REASON].partition("\n")
    tasks = "task" if others_count == 1 else "tasks"
    others = f" (and {others_count} more {tasks})" if others_count else ""
    return f"{first}{others}\n{more}".rstrip()


def _converged(job: JobFacts, tasks: Iterable[TaskFacts], moment: Moment) -> bool:
    if job.state is JobState.STOPPED:
        return all(task.failed_over for task in tasks)
    if job.state is not JobState.SYNCED or job.mixed:
        return False
    as_expected = {
        task.index
        for task in tasks
        if task.state == TaskState.RUNNING
        and (task.revision, task.generation) == (job.running_revision, job.generation)
        and heard(task, moment) is Heard.PRESENT
        and task.silent_seconds is None
        and (not task.crashes or runs_well(task.state, task.batch_id))
    }
    return as_expected.issuperset(range(job.task_count))
