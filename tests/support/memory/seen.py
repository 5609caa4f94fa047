"""What is seen of tasks and containers in the in-memory store."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime, timedelta

from penstock.model.health import SILENT, Moment
from penstock.model.reports import TaskProgress, TaskReport
from penstock.store.running import UNASKED_STOP
from penstock.tasks.ownership import Member
from penstock.tasks.rollout import SeenTask
from penstock.tasks.selectors import selector_of
from penstock.tasks.spec import task_id
from services.state_syncer.decide.observe import (
    Assignment,
    ClusterView,
    JobsTasks,
    ListedTask,
    Presence,
    Sighting,
    Silent,
    observe_stopped,
    silent_ones,
    survey,
)
from services.state_syncer.decide.progress import Step
from services.state_syncer.decide.quiet import Order, Quiet, observe_quiet
from services.state_syncer.decide.whereabouts import ALL_RUN, ReportedTask, Whereabouts, whereabouts
from tests.support.memory.store import BEGIN, MemoryStore, ReportEntry, RunningEntry


def live_members(store: MemoryStore) -> list[Member]:
    """The containers that are live."""
    return [member for member in store.members.values() if member.live]


def wave_tasks(store: MemoryStore, jobs: Collection[str]) -> dict[str, dict[int, SeenTask]]:
    """Those reported by their live owner, in its present life, by job."""
    found: dict[str, dict[int, SeenTask]] = {job: {} for job in jobs}
    if not found:
        return found
    for member in live_members(store):
        told = store.reports.get(member.name)
        if told is None or told.incarnation != member.incarnation:
            continue
        for task in store.tasks.get(member.name, ()):
            if task.job not in found:
                continue
            if _owner(store, task.job, task.index) == member.name:
                worked = task.progress is not None and bool(task.progress.input_rows)
                about = (task.state, task.revision, task.generation, task.restarts, task.crashes, task.error, worked)
                found[task.job][task.index] = SeenTask(*about, silent_since=_silent_since(store, told))
    return found


def _silent_since(store: MemoryStore, told: ReportEntry) -> datetime | None:
    is_silent = told.reported_at is not None and store.now() - told.reported_at > SILENT.total_seconds()
    return BEGIN + timedelta(seconds=told.reported_at) if told.reported_at is not None and is_silent else None


def _owner(store: MemoryStore, job: str, number: int) -> str | None:
    entry = store.running.get(job)
    asked = None if entry is None else selector_of(entry.config)
    shard = store.facts.sharding.shard_of(task_id(job, number), asked)
    return None if shard is None else store.owners[shard].container


def presence(store: MemoryStore, entry: RunningEntry | None) -> Presence:
    """Whether tasks of a job that must stop are still there."""
    if entry is None or not entry.row.stopping:
        return Presence.UNKNOWN
    return observe_stopped(_cluster(store), _listed(store, entry), entry.commit_number, _tasks_of(entry))


def silent(store: MemoryStore, entry: RunningEntry | None) -> tuple[Silent, ...]:
    """The containers that have yet to say that the tasks of such a job are gone, and may be dead."""
    if entry is None or not entry.row.stopping:
        return ()
    return silent_ones(_cluster(store), _listed(store, entry), entry.commit_number, _tasks_of(entry))


def _listed(store: MemoryStore, entry: RunningEntry) -> list[ListedTask]:
    job = entry.row.job
    return [ListedTask(name, each.index) for name, tasks in store.tasks.items() for each in tasks if each.job == job]


def quiet(store: MemoryStore, entry: RunningEntry | None) -> Quiet:
    """Whether the tasks of a job that takes no more rows have finished their batches."""
    if entry is None or not entry.row.quiescing:
        return Quiet()
    order = Order(entry.commit_number, entry.row.level_ms)
    return observe_quiet(_cluster(store), _reported(store, entry.row.job), order, _tasks_of(entry))


def where(store: MemoryStore, entry: RunningEntry | None) -> Whereabouts:
    """Which tasks do not run of a job whose state is copied."""
    if entry is None or store.plans.get(entry.row.job, {}).get("step") != Step.COPY.value:
        return ALL_RUN
    return whereabouts(_cluster(store), _reported(store, entry.row.job), _tasks_of(entry))


def _reported(store: MemoryStore, job: str) -> list[ReportedTask]:
    return [_held(name, task) for name, tasks in store.tasks.items() for task in tasks if task.job == job]


def _cluster(store: MemoryStore) -> ClusterView:
    owners = {shard: owner.container for shard, owner in store.owners.items()}
    assignment = Assignment(owners, store.facts.sharding, store.counters[UNASKED_STOP])
    sightings = list(_sightings(store))
    heard_at = max((each.reported_at for each in sightings if each.reported_at is not None), default=None)
    return survey(sightings, assignment, Moment(store.wall_time(), heard_at))


def _tasks_of(entry: RunningEntry) -> JobsTasks:
    return JobsTasks(entry.row.job, entry.config.get("task_count", 1), selector_of(entry.config))


def _held(container: str, task: TaskReport) -> ReportedTask:
    told = task.progress or TaskProgress()
    quiet = (told.quiesced, told.level_ms, told.watermark_ms, told.caught_up)
    figures = (told.backlog_records, task.crashes, told.processed_rows_per_second)
    return ReportedTask(
        container,
        task.index,
        task.state,
        *quiet,
        *figures,
        is_silent=told.silent_seconds is not None,
        level_records=told.level_records,
    )


def _sightings(store: MemoryStore) -> Iterator[Sighting]:
    for member in store.members.values():
        report = store.reports.get(member.name)
        told = (None, None) if report is None else (report.incarnation, report.commit_number)
        yield Sighting(
            member.name,
            member.incarnation,
            member.live,
            *told,
            _reported_at(store, report),
            _alive_at(store, member.name),
        )


def _reported_at(store: MemoryStore, report: ReportEntry | None) -> datetime | None:
    if report is None:
        return None
    return _time(store.now() if report.reported_at is None else report.reported_at)


def _alive_at(store: MemoryStore, name: str) -> datetime | None:
    seconds = store.renewed_at.get(name)
    times = (store.heard_at.get(name), None if seconds is None else _time(seconds))
    return max((at for at in times if at is not None), default=None)


def _time(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)
