"""`SyncStore` on the in-memory store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import orjson

from penstock.config.declare import ROLLBACK_LAYER, ChangeKind
from penstock.model.jobs import JobState
from penstock.store.running import STATE_SYNCER, UNASKED_STOP, CommitRow
from services.state_syncer.decide.budget import Waits
from services.state_syncer.decide.effects import PlanWrite
from services.state_syncer.decide.progress import Plan, PlanRow
from services.state_syncer.decide.view import JobView, RollingJob, Running, SyncRecord
from services.state_syncer.decide.waves import Rollout
from services.state_syncer.host_tasks.next_attempt import LiveContainer
from services.state_syncer.store.port import Batch, RoundInput
from services.state_syncer.store.recorded import expected_of, with_recorded
from services.state_syncer.store.rollouts import RollingJobs
from services.state_syncer.store.simple import SimpleCommits
from services.state_syncer.store.states import SyncWrite, has_recovered
from tests.support.memory.seen import live_members, presence, quiet, silent, wave_tasks, where
from tests.support.memory.store import MemoryPort, MemoryStore, RunningEntry


class MemorySyncStore(MemoryPort):
    """As `services.state_syncer.store.port.SyncStore`; nothing is committed at once."""

    @contextmanager
    def read(self) -> Iterator[RoundInput]:
        with self._transaction() as store:
            new_ranks = None if store.ranks == store.synced_ranks else dict(store.ranks)
            plans = {name: _plan_row(store, name) for name in store.plans}
            rolling = [name for name, plan in plans.items() if plan.is_rollout]
            tasks = wave_tasks(store, rolling)

            def view(name: str) -> JobView:
                entry = store.running.get(name)
                rollout = None if entry is None else entry.row.rollout
                order = store.rollout_orders.get(name)
                return with_recorded(_view(store, name), rollout, plans.get(name), tasks.get(name, {}), order)

            found = RoundInput(
                fresh=(),
                others=[name for name in store.jobs if new_ranks is not None or _is_behind(store, name)],
                drifted=partial(list, [name for name in store.jobs if _has_drifted(store, name)]),
                rolling=partial(_rolling_jobs, [view(name) for name in rolling]),
                named=lambda names: iter([view(name) for name in names]),
                queued=partial(_queued, [view(name) for name in store.jobs if _waits_for_room(store, name)]),
                new_ranks=new_ranks,
                plans={name: plan for name, plan in plans.items() if name not in rolling},
                containers={member.name: LiveContainer(member.url, member.offers()) for member in live_members(store)},
                count_running=partial(len, dict(store.running)),
                ran_on=partial(_holders, store),
            )
        yield found

    def commit_simple(
        self, leader_epoch: int, waits: Waits, *, names: Sequence[str] | None, sample: int
    ) -> SimpleCommits:
        with self._transaction() as store:
            store.check_epoch(STATE_SYNCER, leader_epoch)
        return SimpleCommits()

    def write(self, batch: Batch, leader_epoch: int) -> int | None:
        with self._transaction() as store:
            store.check_epoch(STATE_SYNCER, leader_epoch)
            batch.left_out = _changed_since(store, batch)
            batch = batch.without(batch.left_out) if batch.left_out else batch
            _forget(store, batch.forget)
            number = _commit(store, batch.commits, batch.remade)
            for write in batch.states:
                _write_state(store, write)
            for plan in batch.plans:
                _write_plan(store, plan)
            for job, restored in batch.restored.items():
                if job in store.restores and store.restores[job].number == restored:
                    del store.restores[job]
            if batch.ranks is not None:
                store.synced_ranks = dict(batch.ranks)
            store.counters[UNASKED_STOP] = max(store.counters[UNASKED_STOP], batch.unasked_stop)
            if number is not None or batch.forget:
                store.news.notify_all()
            return number

    def count_states(self) -> dict[str, int]:
        with self._transaction() as store:
            return dict(Counter(record.state.value for record in store.sync_states.values()))


def _changed_since(store: MemoryStore, batch: Batch) -> frozenset[str]:
    """The jobs that were written to, or whose restore was cancelled, since the batch was decided."""
    written = {
        job for job, number in batch.starts.items() if job not in store.jobs or store.jobs[job].revision != number
    }
    numbers = {job: restore.number for job, restore in store.restores.items()}
    return frozenset(written | {job for job, number in batch.seals.items() if numbers.get(job) != number})


def _holders(store: MemoryStore, jobs: Sequence[str]) -> dict[str, set[str]]:
    return {
        job: {name for name, tasks in store.tasks.items() if any(task.job == job for task in tasks)} for job in jobs
    }


def _rolling_jobs(views: Sequence[JobView]) -> RollingJobs:
    unreadable = [view.job for view in views if view.rolling is None]
    return RollingJobs([job for view in views if (job := _rolling_job(view)) is not None], unreadable)


def _rolling_job(view: JobView) -> RollingJob | None:
    running, rolling = view.running, view.rolling
    if running is None or rolling is None:
        return None
    changed = view.expected != running.config or view.restore is not None or running.stopping
    return RollingJob(
        view.job,
        view.revision,
        view.restarts,
        view.deleting,
        view.sync,
        generation=running.generation,
        rolling=rolling,
        changed=changed,
    )


def _queued(waiting: Sequence[JobView], *, rescales: int, rollouts: int) -> Iterator[JobView]:
    in_order = sorted(waiting, key=lambda view: (-_priority(view), view.revision, view.job))
    for_rescale = [view for view in in_order if view.sync is not None and view.sync.kind is ChangeKind.RESCALE]
    for_rollout = [view for view in in_order if view not in for_rescale]
    yield from for_rescale[: max(0, rescales)]
    yield from for_rollout[: max(0, rollouts)]


def _priority(view: JobView) -> int:
    return int(view.expected["priority"]) if isinstance(view.expected, dict) else 0


def _waits_for_room(store: MemoryStore, name: str) -> bool:
    job, record = store.jobs[name], store.sync_states.get(name)
    if record is None or job.deleting:
        return False
    return record.state is JobState.QUEUED and record.revision >= job.revision


def _is_behind(store: MemoryStore, name: str) -> bool:
    job, record = store.jobs[name], store.sync_states.get(name)
    if name in store.plans and _plan_row(store, name).is_rollout:
        return False
    if job.deleting or record is None:
        return True
    if _waits_for_room(store, name):
        return False
    return record.revision < job.revision or record.state is not JobState.SYNCED


def _has_drifted(store: MemoryStore, name: str) -> bool:
    job, record, entry = store.jobs[name], store.sync_states.get(name), store.running.get(name)
    if record is None or record.state is not JobState.SYNCED or record.revision < job.revision or name in store.plans:
        return False
    if job.deleting or entry is None:
        return not job.deleting
    row = entry.row
    is_whole = not (row.stopping or row.quiescing) and row.rollout is None
    return not is_whole or row.revision < job.revision or row.restarts < job.restarts


def _plan_row(store: MemoryStore, name: str) -> PlanRow:
    entry = store.running[name]
    newest = max(entry.row.generation, entry.newest_generation)
    runs = orjson.loads(entry.row.config)["desired_state"] == "running"
    return PlanRow(store.plans[name], newest, store.jobs[name].deleting, runs)


def _write_plan(store: MemoryStore, write: PlanWrite) -> None:
    """The record of a job that was looked at, and what it does to the running row."""
    plan = write.plan
    if write.job in store.sync_states:
        store.plans.pop(write.job, None)
        if plan is not None:
            store.plans[write.job] = plan.model_dump(mode="json")
        if write.rejected is not None:
            version = store.jobs[write.job].versions[ROLLBACK_LAYER]
            store.rejected[write.job] = {**write.rejected.model_dump(mode="json"), "layer_version": version}
        _keep_order(store, write)
    entry = store.running.get(write.job)
    if entry is not None:
        generation = plan.generation if isinstance(plan, Plan) else None
        newest = max(entry.newest_generation, generation or 0)
        seconds = entry.rescale_seconds if write.seconds is None else write.seconds
        store.running[write.job] = replace(entry, newest_generation=newest, rescale_seconds=seconds)


def _keep_order(store: MemoryStore, write: PlanWrite) -> None:
    """An operator's order ends with its rollout; the alert of a late one is there while its plan says so."""
    plan, order = store.plans.get(write.job), store.rollout_orders.get(write.job)
    if order is not None and (plan is None or plan.get("begun_at") != order["begun_at"]):
        del store.rollout_orders[write.job]
    if isinstance(write.plan, Rollout) and write.plan.late:
        store.rollouts_late.add(write.job)
    else:
        store.rollouts_late.discard(write.job)


def _view(store: MemoryStore, name: str) -> JobView:
    job, entry = store.jobs[name], store.running.get(name)
    return JobView(
        name,
        job.revision,
        job.restarts,
        job.deleting,
        store.sync_states.get(name),
        expected=expected_of(store.merged_config(name), store.configs(name)),
        running=None if entry is None else _running(entry),
        last_generation=store.forgotten.get(name, (0, 0))[1],
        presence=presence(store, entry),
        silent=silent(store, entry),
        quiet=quiet(store, entry),
        where=where(store, entry),
        restore=store.restores.get(name),
    )


def _running(entry: RunningEntry) -> Running:
    row = entry.row
    return Running(
        entry.config,
        row.revision,
        row.generation,
        row.restarts,
        row.stopping,
        row.started,
        entry.commit_number,
        first_generation=entry.first_generation,
        quiescing=row.quiescing,
        level_ms=row.level_ms,
    )


def _commit(store: MemoryStore, commits: Sequence[CommitRow], remade: Sequence[str]) -> int | None:
    if not commits:
        return None
    number = store.next_number("running_commit")
    for row in commits:
        held = store.running.get(row.job)
        if held is None or held.row.revision <= row.revision:
            started = row.started or (held is not None and held.row.started)
            taken = 0 if held is None else max(held.newest_generation, held.row.generation)
            seconds = None if held is None else held.rescale_seconds
            newest = max(taken, row.generation)
            first = row.generation if held is None else held.first_generation
            store.running[row.job] = RunningEntry(row._replace(started=started), number, newest, seconds, first)
    for job in remade:
        store.forgotten.pop(job, None)
    return number


def _forget(store: MemoryStore, jobs: Sequence[str]) -> None:
    number = store.next_number("running_commit") if jobs else 0
    for job in jobs:
        store.quarantined.discard(job)
        if job in store.jobs and store.jobs[job].deleting:
            _forget_one(store, job, number)


def _forget_one(store: MemoryStore, job: str, number: int) -> None:
    del store.jobs[job]
    store.sync_states.pop(job, None)
    store.plans.pop(job, None)
    store.restores.pop(job, None)
    store.rejected.pop(job, None)
    store.rollout_orders.pop(job, None)
    store.rollouts_late.discard(job)
    store.clear_rejected(job)
    store.avoided = [task for task in store.avoided if task.job != job]
    for name, tasks in store.tasks.items():
        if any(task.job == job for task in tasks):
            store.want_full_report(name)
    store.tasks = {name: tuple(task for task in tasks if task.job != job) for name, tasks in store.tasks.items()}
    entry = store.running.pop(job, None)
    if entry is not None:
        _, before = store.forgotten.get(job, (0, 0))
        store.forgotten[job] = (number, max(before, entry.row.generation, entry.newest_generation))


def _write_state(store: MemoryStore, write: SyncWrite) -> None:
    """One that somebody else changed meanwhile is left to the next round; alerts follow the decision all the same."""
    held = store.sync_states.get(write.job)
    if write.new.state is JobState.QUARANTINED:
        store.quarantined.add(write.job)
    if has_recovered(write):
        store.quarantined.discard(write.job)
    if _decides_on(held) == _decides_on(write.seen):
        store.sync_states[write.job] = write.new


def _decides_on(record: SyncRecord | None) -> tuple[str, int] | None:
    return None if record is None else (record.state, record.failures)
