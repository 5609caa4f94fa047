"""Rows of the store as the answers of the API. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from penstock.config.model import DesiredState
from penstock.model.health import Heard, Moment, heard, host_is_silent, is_lost, runs_well
from penstock.model.jobs import JobState
from penstock.model.reports import TaskState
from penstock.tasks.host_task import COPY_STATE
from penstock.tasks.lag import MEASURED, lag_of
from penstock.tasks.loads import TaskLoad
from penstock.tasks.ownership import Avoidance
from penstock.tasks.selectors import selector_of
from penstock.tasks.shards import Sharding
from penstock.tasks.spec import task_id
from penstock.wire.jobs import HistoryPage
from penstock.wire.overview import ContainerTaskView, GenerationView, SyncView, TaskView
from services.job_service.cursors import encode

if TYPE_CHECKING:
    from services.job_service.store.history import Entries
    from services.job_service.store.overview import ReportedTask, RunningRow, SyncRow

Task = TypeVar("Task", bound=TaskView)
UNKNOWN, LOST = "unknown", "lost"
# So many of the jobs that are disrupted are named to one that waits for room.
MOST_NAMED = 3


class Place(NamedTuple):
    """A task and its shard, None when it is to run nowhere; `expected` false: only reported."""

    task: str
    number: int
    shard: int | None
    expected: bool


class TasksOfJob(NamedTuple):
    """The tasks of a job that a container reports."""

    job: str
    places: Sequence[Place]
    reported: Sequence[ReportedTask]


def history_page(found: Entries) -> HistoryPage:
    """A page of the history of jobs."""
    return HistoryPage(entries=found.rows, next=encode(found.rows[-1].id) if found.is_full else None)


def places(job: str, running: RunningRow | None, reported: Sequence[ReportedTask], sharding: Sharding) -> list[Place]:
    """The tasks that the running configuration has, and the others that are reported."""
    return _places(job, running, {*range(_task_count(running)), *(task.index for task in reported)}, sharding)


def _places(job: str, running: RunningRow | None, indexes: Iterable[int], sharding: Sharding) -> list[Place]:
    """Those of some tasks, by index."""
    asked = None if running is None else selector_of(running.config)
    expected = range(_task_count(running))
    named = [(task_id(job, index), index) for index in sorted(indexes)]
    return [Place(name, index, sharding.shard_of(name, asked), index in expected) for name, index in named]


def task_views(
    places: Sequence[Place],
    reported: Sequence[ReportedTask],
    owners: Mapping[int, str | None],
    loads: Sequence[TaskLoad],
    moment: Moment,
) -> list[TaskView]:
    """One view a report, and one with the state `unknown` for each task that nobody reports."""
    load_of = {load.number: dict(load.load) for load in loads}
    reports: dict[int, list[ReportedTask | None]] = {}
    for task in reported:
        reports.setdefault(task.index, []).append(task)
    return [
        _task_view(place, owners, report, load_of.get(place.number), moment)
        for place in places
        for report in reports.get(place.number, [None])
    ]


def by_job(reported: Sequence[ReportedTask], running: Mapping[str, RunningRow], sharding: Sharding) -> list[TasksOfJob]:
    """The tasks that a container reports, which are in order of their jobs."""
    found = []
    for job, group in groupby(reported, key=lambda task: task.job):
        tasks = list(group)
        here = _places(job, running.get(job), {task.index for task in tasks}, sharding)
        found.append(TasksOfJob(job, here, tasks))
    return found


def tasks_of_container(
    found: Sequence[TasksOfJob],
    owners: Mapping[int, str | None],
    loads: Sequence[TaskLoad],
    avoided: Iterable[Avoidance],
    moment: Moment,
) -> list[ContainerTaskView]:
    """The tasks that a container reports, as those of their jobs."""
    loads_of: dict[str, list[TaskLoad]] = {}
    for load in loads:
        loads_of.setdefault(load.job, []).append(load)
    views = [
        ContainerTaskView(job=each.job, **dict(view))
        for each in found
        for view in task_views(each.places, each.reported, owners, loads_of.get(each.job, ()), moment)
    ]
    return with_avoided(views, avoided)


def waits_for_room(sync: SyncRow | None) -> bool:
    """Whether a job waits until others are not disrupted any more."""
    if sync is None:
        return False
    is_copied = isinstance(sync.plan, Mapping) and sync.plan.get("step") == COPY_STATE
    return sync.state == JobState.QUEUED.value or is_copied


def sync_view(
    status: Any,
    sync: SyncRow | None,
    running: RunningRow | None,
    noted: Sequence[GenerationView],
    change_kind: str | None,
    changed_fields: list[str] | None,
    ahead: tuple[Sequence[str], int] | None = None,
) -> SyncView:
    """How far a job is; None where the State Syncer has not been yet. `ahead`: some of the jobs that are disrupted now,
    and how many are, where this one waits for room."""
    same = ("step", "failures", "next_attempt_at", "updated_at")
    return SyncView(
        job=status.job,
        state=status.state,
        expected_revision=status.revision,
        running_revision=status.running_revision,
        generation=status.generation,
        commit_number=None if running is None else running.commit_number,
        committed_at=None if running is None else running.committed_at,
        sync_revision=None if sync is None else sync.revision,
        change_kind=change_kind,
        changed_fields=changed_fields,
        detail=None if sync is None else _with_names(sync.detail, ahead),
        rejected=None if sync is None else sync.rejected,
        rollout_order=None if sync is None else sync.rollout_order,
        plan=None if sync is None or sync.plan is None else _plan(sync.plan),
        generations=list(noted),
        **{name: None if sync is None else getattr(sync, name) for name in same},
    )


def _with_names(detail: str, ahead: tuple[Sequence[str], int] | None) -> str:
    if ahead is None or "waiting: " not in detail:
        return detail
    names, jobs = ahead
    named = f": {', '.join(names)}{f' and {jobs - len(names)} more' if jobs > len(names) else ''}" if names else ""
    return f"{detail}. {jobs or 'None'} {'is' if jobs == 1 else 'are'} disrupted now{named}"


def _plan(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """A recorded plan without configurations, which the layers and the savepoint give."""
    shown = {name: value for name, value in recorded.items() if name != "config"}
    restore = recorded.get("restore")
    if restore is not None:
        shown["restore"] = {name: value for name, value in restore.items() if name != "config"}
    return shown


def _task_view(
    place: Place,
    owners: Mapping[int, str | None],
    report: ReportedTask | None,
    load: dict[str, float] | None,
    moment: Moment,
) -> TaskView:
    about = {"task": place.task, "index": place.number, "shard": place.shard} | {
        "expected": place.expected,
        "owner": None if place.shard is None else owners.get(place.shard),
        "load": load,
        "avoids": (),
    }
    if report is None:
        return TaskView(**about, state=UNKNOWN)
    # What the other tasks say decides about the watermark.
    about |= {"lag_seconds": _lag_seconds(report), "watermark_behind_seconds": None}
    named = {name: getattr(report, name) for name in TaskView.model_fields if name not in about}
    return TaskView(**about, **(named | _shown_now(report, moment)))


def _shown_now(report: ReportedTask, moment: Moment) -> dict[str, Any]:
    """What a report shows now: nothing of how a task runs while its container or its host is silent, nor an error that
    is over."""
    match heard(report, moment):
        case Heard.LOST:
            return {"state": LOST, "error": is_lost(report.container, report)}
        case Heard.UNKNOWN:
            return {"state": UNKNOWN, "error": f"reports of its container {report.container} do not arrive"}
    progress = report.progress or {}
    if progress.get("silent_seconds") is not None:
        return {"state": UNKNOWN, "error": host_is_silent(progress["silent_seconds"])}
    is_over = runs_well(report.state, progress.get("batch_id"))
    return {"error": None} if is_over else {}


def _lag_seconds(report: ReportedTask) -> float | None:
    """Unknown of a task that does not run: its progress is old."""
    if report.progress is None or report.state != TaskState.RUNNING:
        return None
    return lag_of(*(report.progress.get(name) for name in MEASURED)).seconds


def _task_count(running: RunningRow | None) -> int:
    if running is None or running.stopping or running.config.get("desired_state") == DesiredState.STOPPED:
        return 0
    return int(running.config.get("task_count", 1))


def with_avoided(tasks: Iterable[Task], avoided: Iterable[Avoidance]) -> list[Task]:
    """The tasks with the containers that they avoid."""
    by_task: dict[str, tuple[str, ...]] = {}
    for each in avoided:
        name = task_id(each.job, each.index)
        by_task[name] = (*by_task.get(name, ()), each.container)
    return [task.model_copy(update={"avoids": by_task.get(task.task, ())}) for task in tasks]
