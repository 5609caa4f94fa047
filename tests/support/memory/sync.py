"""`SyncStore` on the in-memory store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

import orjson

from penstock.config.declare import ROLLBACK_LAYER
from penstock.config.sameness import GREATEST_SIMPLE
from penstock.store.plans import LiveContainer, PlanRow, PlanWrite
from penstock.store.records import CommittedAlike
from penstock.store.running import STATE_SYNCER, CommitRow
from penstock.store.sync import JobRow, RunningRow, SyncRow, SyncWrite
from services.state_syncer.budget import Candidate, Room, put_off
from services.state_syncer.plan import (
    Commit,
    JobView,
    SyncRecord,
    SyncState,
    Upgrade,
    decide,
    field_names,
    next_record,
    wait,
)
from services.state_syncer.rollout import Settle, begin_rollout, next_step, record_of_rollout
from services.state_syncer.simple import SimpleCommits, Terms, is_of_output
from services.state_syncer.sinks import awaits_sink
from services.state_syncer.store import (
    Batch,
    Limit,
    RoundInput,
    is_full,
    job_view,
    sync_row,
    unlimited,
    with_plan,
    with_restore,
)
from services.state_syncer.watch import is_rollout
from tests.support.memory.seen import live_members, presence, wave_tasks
from tests.support.memory.store import MemoryPort, MemoryStore, RunningEntry


def _holders(store: MemoryStore, jobs: Sequence[str]) -> dict[str, set[str]]:
    return {
        job: {name for name, tasks in store.tasks.items() if any(task.job == job for task in tasks)} for job in jobs
    }


class MemorySyncStore(MemoryPort):
    """As `services.state_syncer.store.PostgresSyncStore`."""

    @contextmanager
    def read(self, limit: Limit = unlimited, done: int | None = None) -> Iterator[RoundInput]:
        with self._transaction() as store:
            new_ranks = None if store.ranks == store.synced_ranks else dict(store.ranks)
            plans = {name: _plan_row(store, name) for name in store.plans}
            rolling = {name for name, plan in plans.items() if is_rollout(plan)}
            rescales = {name: plan for name, plan in plans.items() if name not in rolling}
            rollouts = sum(not plans[name].deleting for name in rolling)
            full = is_full(rescales, rollouts, limit, lambda: len(store.running))
            names = [name for name in store.jobs if new_ranks is not None or _needs_a_look(store, name, full=full)]
            names = [name for name in names if not _is_of_this_round(store, name, done)]
            tasks = wave_tasks(store, rolling)
            views = [with_plan(_view(store, name), plans.get(name), tasks.get(name, {})) for name in names]
            containers = {member.name: LiveContainer(member.url, member.offers()) for member in live_members(store)}
            count = len(store.running)
        usual = 0 if new_ranks is not None else sum(_is_usual(view) for view in views)
        who_ran = partial(_holders, store)
        yield RoundInput(iter(views), new_ranks, rescales, containers, lambda: count, who_ran, usual, rollouts)

    def commit_simple(self, leader_epoch: int, terms: Terms) -> SimpleCommits:
        with self._transaction() as store:
            store.check_epoch(STATE_SYNCER, leader_epoch)
            if store.ranks != store.synced_ranks:
                return SimpleCommits()
            settled = _settle(store, terms)
            full = _room(store, terms).free <= 0
            names = [name for name in store.jobs if name not in store.plans and _needs_a_look(store, name, full=full)]
            views = [_view(store, name) for name in names]
            found = [(view, decision) for view in views if (decision := _simple_decision(view)) is not None]
            simple = [_simple_commit(view, commit) for view, commit in found if isinstance(commit, Commit)]
            upgrades = [(view, upgrade) for view, upgrade in found if isinstance(upgrade, Upgrade)]
            begun, late = _begin(store, upgrades, terms)
            number = _commit(store, [each.row for each in simple + begun], [each.row.job for each in simple])
            for each in simple + begun:
                _write_state(store, each.state)
                if each.plan is not None:
                    _write_plan(store, each.plan)
            for write in late:
                _write_state(store, write)
            if number is not None:
                store.news.notify_all()
            return SimpleCommits(number, _alike(simple + begun), settled, awaiting=bool(upgrades) or settled > 0)

    def write(self, batch: Batch, leader_epoch: int) -> int | None:
        with self._transaction() as store:
            store.check_epoch(STATE_SYNCER, leader_epoch)
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
            if number is not None or batch.forget:
                store.news.notify_all()
            return number

    def count_states(self) -> dict[str, int]:
        with self._transaction() as store:
            return dict(Counter(row.state for row in store.sync_states.values()))


def _plan_row(store: MemoryStore, name: str) -> PlanRow:
    entry = store.running[name]
    newest = max(entry.row.generation, entry.newest_generation)
    return PlanRow(store.plans[name], newest, store.jobs[name].deleting)


def _write_plan(store: MemoryStore, write: PlanWrite) -> None:
    """The record of a job that was looked at, and what it does to the running row."""
    if write.job in store.sync_states:
        store.plans.pop(write.job, None)
        if write.plan is not None:
            store.plans[write.job] = write.plan
        if write.rejected is not None:
            version = store.jobs[write.job].versions[ROLLBACK_LAYER]
            store.rejected[write.job] = {**write.rejected, "layer_version": version}
            store.rolled_back.add(write.job)
    entry = store.running.get(write.job)
    if entry is not None:
        newest = max(entry.newest_generation, write.generation or 0)
        seconds = entry.rescale_seconds if write.seconds is None else write.seconds
        store.running[write.job] = replace(entry, newest_generation=newest, rescale_seconds=seconds)


def _needs_a_look(store: MemoryStore, name: str, *, full: bool) -> bool:
    job, entry, state = store.jobs[name], store.running.get(name), store.sync_states.get(name)
    if job.deleting or entry is None or state is None:
        return True
    if (
        full
        and state.state == SyncState.QUEUED
        and state.revision >= job.revision
        and entry.row.restarts >= job.restarts
    ):
        return False
    is_behind = entry.row.revision < job.revision or entry.row.restarts < job.restarts
    return is_behind or entry.row.stopping or state.state != "synced"


def _is_of_this_round(store: MemoryStore, name: str, done: int | None) -> bool:
    return name in store.plans and is_rollout(_plan_row(store, name)) and store.running[name].commit_number == done


def _is_usual(view: JobView) -> bool:
    is_new = view.running is None and view.sync is None
    sync = view.sync
    is_open = sync is not None and sync.state in (SyncState.SYNCED, SyncState.QUEUED)
    return not view.deleting and (is_new or is_open)


class Simple(NamedTuple):
    row: CommitRow
    state: SyncWrite
    kind: str
    plan: PlanWrite | None = None


def _simple_decision(view: JobView) -> Commit | Upgrade | None:
    """What `decide` says, where that is simple and the job's state is usual."""
    before = view.running
    if (
        view.restore is not None
        or not _is_usual(view)
        or (before is not None and (before.stopping or before.restarts < view.restarts))
    ):
        return None
    decision = decide(view, datetime.max.replace(tzinfo=UTC))
    if not isinstance(decision, Commit | Upgrade) or decision.difference.kind > GREATEST_SIMPLE:
        return None
    commit = decision.commit if isinstance(decision, Upgrade) else decision
    return None if awaits_sink(view, commit) or is_of_output(field_names(commit.difference)) else decision


def _simple_commit(view: JobView, commit: Commit) -> Simple:
    record = next_record(view, commit, datetime.max.replace(tzinfo=UTC))
    assert record is not None
    kind = "first" if view.running is None else commit.difference.kind.name.lower()
    return Simple(_row(view, commit), _state(view, record), kind)


def _settle(store: MemoryStore, terms: Terms) -> int:
    settled = 0
    rolling = [name for name in store.plans if is_rollout(_plan_row(store, name))]
    tasks = wave_tasks(store, rolling)
    for name in rolling:
        view = with_plan(_view(store, name), _plan_row(store, name), tasks[name])
        decision = next_step(view, terms.now, terms.policy)
        if isinstance(decision, Settle) and view.failures == 0:
            record = record_of_rollout(view, decision, terms.now)
            assert record is not None
            _write_state(store, _state(view, record))
            _write_plan(store, PlanWrite(name, None))
            settled += 1
    return settled


def _begin(
    store: MemoryStore, upgrades: Sequence[tuple[JobView, Upgrade]], terms: Terms
) -> tuple[list[Simple], list[SyncWrite]]:
    """The rollouts that there is room for, and the states of the others."""
    room = _room(store, terms)
    turns = sorted(upgrades, key=lambda each: (-each[1].config["priority"], each[0].revision, each[0].job))
    free = max(0, room.free)
    begun = []
    for view, upgrade in turns[:free]:
        roll = begin_rollout(view, upgrade, terms.now, terms.policy)
        record = record_of_rollout(view, roll, terms.now)
        assert record is not None
        plan = PlanWrite(view.job, roll.plan.model_dump(mode="json"), roll.plan.step_number)
        begun.append(Simple(_row(view, roll.commit), _state(view, record), "rollout", plan))
    waits = [(view, wait(view, put_off(Candidate(view, upgrade), room))) for view, upgrade in turns[free:]]
    records = [(view, next_record(view, decision, terms.now)) for view, decision in waits]
    return begun, [_state(view, record) for view, record in records if record is not None]


def _room(store: MemoryStore, terms: Terms) -> Room:
    under_way = [row for row in (_plan_row(store, name) for name in store.plans) if not row.deleting]
    rescales = sum(not is_rollout(row) for row in under_way)
    return terms.budget.room(len(store.running), active=len(under_way), rescales=rescales)


def _row(view: JobView, commit: Commit) -> CommitRow:
    return CommitRow(
        view.job,
        orjson.dumps(commit.config),
        commit.revision,
        commit.generation,
        commit.restarts,
        stopping=False,
        started=commit.asks_for_tasks,
        rollout=None if commit.rollout is None else commit.rollout.model_dump(mode="json"),
    )


def _state(view: JobView, record: SyncRecord) -> SyncWrite:
    return SyncWrite(view.job, sync_row(record), None if view.sync is None else sync_row(view.sync))


def _alike(simple: Sequence[Simple]) -> tuple[CommittedAlike, ...]:
    kinds = sorted({each.kind for each in simple})
    samples = {kind: tuple((each.row.job, each.row.revision) for each in simple if each.kind == kind) for kind in kinds}
    return tuple(
        CommittedAlike(kind, len(found), max(revision for _, revision in found), found)
        for kind, found in samples.items()
    )


def _view(store: MemoryStore, name: str) -> JobView:
    job, entry = store.jobs[name], store.running.get(name)
    row = JobRow(
        job=name,
        revision=job.revision,
        restarts=job.restarts,
        deleting=job.deleting,
        merged=store.merged_config(name),
        layers=store.configs(name),
        running=None if entry is None else _running(entry),
        sync=store.sync_states.get(name),
        forgotten_generation=store.forgotten.get(name, (0, 0))[1],
    )
    return with_restore(job_view(row, presence(store, entry)), store.restores.get(name))


def _running(entry: RunningEntry) -> RunningRow:
    row = entry.row
    return RunningRow(
        entry.config,
        row.revision,
        row.generation,
        row.restarts,
        row.stopping,
        row.started,
        entry.commit_number,
        row.rollout,
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
            store.running[row.job] = RunningEntry(row._replace(started=started), number, newest, seconds)
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
    store.rolled_back.discard(job)
    store.tasks = {name: tuple(task for task in tasks if task.job != job) for name, tasks in store.tasks.items()}
    entry = store.running.pop(job, None)
    if entry is not None:
        _, before = store.forgotten.get(job, (0, 0))
        store.forgotten[job] = (number, max(before, entry.row.generation, entry.newest_generation))


def _write_state(store: MemoryStore, write: SyncWrite) -> None:
    """One that somebody else changed meanwhile is left to the next round; alerts follow the decision all the same."""
    held = store.sync_states.get(write.job)
    if write.new.state == "quarantined":
        store.quarantined.add(write.job)
    if write.new.failures == 0 and write.seen is not None and write.seen.state != "synced":
        store.quarantined.discard(write.job)
    if _decides_on(held) == _decides_on(write.seen):
        store.sync_states[write.job] = write.new


def _decides_on(row: SyncRow | None) -> tuple[str, int] | None:
    return None if row is None else (row.state, row.failures)
