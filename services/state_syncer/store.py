"""The State Syncer's port to the job store, and its Postgres form."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

from sqlalchemy import Connection, Engine

from penstock.config.basis import merge_basis
from penstock.config.model import ChangeKind
from penstock.store import generations, leases, restores, sync
from penstock.store.alerts import clear_alert
from penstock.store.engine import transaction
from penstock.store.plans import (
    LiveContainer,
    PlanRow,
    PlanWrite,
    count_rollouts,
    count_running,
    read_live_containers,
    read_plans,
    write_plans,
)
from penstock.store.restores import RestoreRow
from penstock.store.rollouts import ROLLED_BACK, raise_rolled_back, read_wave_tasks
from penstock.store.running import STATE_SYNCER, CommitRow, commit_many, forget_many
from penstock.tasks.redistribution import SavepointName
from penstock.tasks.rollout import Rejected, RunningRollout, SeenTask
from services.state_syncer.diff import Unusable, expected_config
from services.state_syncer.observe import ClusterView, Presence, Sighting, observe_stopped, survey
from services.state_syncer.plan import JobView, Running, SyncRecord, SyncState
from services.state_syncer.progress import Plan, Progress, Restore
from services.state_syncer.simple import SimpleCommits, Terms, commit_simple
from services.state_syncer.watch import is_rollout
from services.state_syncer.waves import Rolling, Rollout

Ranks = Mapping[str, int]
RanOn = Callable[[Sequence[str]], Mapping[str, Collection[str]]]


@dataclass(frozen=True, slots=True)
class RoundInput:
    """The jobs that a round must look at. `new_ranks`: layers' ranks changed, so these are all jobs.

    `plans` are all that are recorded of rescales, `rollouts` the number of those of rollouts; `containers` are the live
    ones. `count_running` counts the jobs of the cell, `ran_on`
    tells the containers that have tasks of jobs. `usual`: how many of the jobs are new, were synced before or
    wait for room, so that `commit_simple` may settle them; else 0.
    """

    views: Iterator[JobView]
    new_ranks: Ranks | None
    plans: Mapping[str, PlanRow]
    containers: Mapping[str, LiveContainer]
    count_running: Callable[[], int]
    ran_on: RanOn
    usual: int = 0
    rollouts: int = 0


@dataclass(slots=True)
class Batch:
    """All that a round writes. `remade`: committed jobs that live again under the name of a forgotten one. `restored`:
    the numbers of the restores that were done, by job."""

    commits: list[CommitRow] = field(default_factory=list)
    remade: list[str] = field(default_factory=list)
    forget: list[str] = field(default_factory=list)
    states: list[sync.SyncWrite] = field(default_factory=list)
    plans: list[PlanWrite] = field(default_factory=list)
    restored: dict[str, int] = field(default_factory=dict)
    ranks: Ranks | None = None

    def __bool__(self) -> bool:
        return bool(self.commits or self.forget or self.states or self.plans or self.ranks is not None)


Limit = Callable[[int], int]


def unlimited(_: int) -> int:
    """No limit of jobs that are disrupted at once."""
    return 2**31


def is_full(recorded: Mapping[str, PlanRow], rollouts: int, limit: Limit, count: Callable[[], int]) -> bool:
    """Whether as many jobs are disrupted as may be."""
    active = rollouts + sum(not row.deleting for row in recorded.values())
    return active > 0 and active >= limit(count())


class SyncStore(Protocol):
    """What the loop needs of the job store."""

    def read(self, limit: Limit = unlimited, done: int | None = None) -> AbstractContextManager[RoundInput]:
        """What a round must look at, at one moment; the views are good inside the context. Raises Unavailable.

        `limit`: of the jobs that may be disrupted at once, by the number of all jobs. While so many are, those that
        wait for room are not looked at. Neither are rollouts that the round itself committed, under the number `done`;
        and of many others only some, by chance.
        """
        ...

    def commit_simple(self, leader_epoch: int, terms: Terms) -> SimpleCommits:
        """Settles simple changes, as many as it can at once, and begins rollouts, as `decide` and the budget would.
        Raises Fenced and Unavailable."""
        ...

    def write(self, batch: Batch, leader_epoch: int) -> int | None:
        """Writes all of it or nothing; the commit number. Raises Fenced and Unavailable."""
        ...

    def count_states(self) -> dict[str, int]:
        """How many jobs are in each sync state. Raises Unavailable."""
        ...


class PostgresSyncStore:
    """The port on Postgres."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        # One snapshot for all that a round reads: a task's row and its container's report must be of one moment.
        self._snapshot = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)

    @contextmanager
    def read(self, limit: Limit = unlimited, done: int | None = None) -> Iterator[RoundInput]:
        """See the port."""
        with transaction(self._snapshot) as connection:
            ranks = sync.read_ranks(connection)
            recorded = read_plans(connection)
            rollouts = count_rollouts(connection)
            full = is_full(recorded, rollouts, limit, lambda: count_running(connection))
            found = sync.survey(connection, full=full, done=done) if ranks.present == ranks.synced else None
            yield RoundInput(
                views=_views(connection, found, merge_basis(ranks.lowest_first)),
                new_ranks=ranks.present if found is None else None,
                plans=recorded,
                containers=read_live_containers(connection),
                count_running=lambda: count_running(connection),
                ran_on=partial(sync.read_holders, connection),
                usual=0 if found is None else found.usual,
                rollouts=rollouts,
            )

    def commit_simple(self, leader_epoch: int, terms: Terms) -> SimpleCommits:
        """See the port. New ranks are for the ordinary way, which merges anew."""
        with transaction(self._engine) as connection:
            leases.check_epoch(connection, STATE_SYNCER, leader_epoch)
            ranks = sync.read_ranks(connection)
            if ranks.present != ranks.synced:
                return SimpleCommits()
            return commit_simple(connection, merge_basis(ranks.lowest_first), leader_epoch, terms)

    def write(self, batch: Batch, leader_epoch: int) -> int | None:
        """See the port."""
        with transaction(self._engine) as connection:
            leases.check_epoch(connection, STATE_SYNCER, leader_epoch)
            forget_many(connection, batch.forget, leader_epoch)
            number = commit_many(connection, batch.commits, leader_epoch, remade=batch.remade)
            sync.write_sync_states(connection, batch.states)
            write_plans(connection, batch.plans)
            if batch.plans:
                generations.note(connection, [write.job for write in batch.plans])
            _tell_of_rollouts(connection, batch)
            restores.done(connection, batch.restored)
            sync.raise_quarantine_alerts(connection, [write for write in batch.states if _is_quarantined(write)])
            sync.clear_quarantine_alerts(connection, batch.forget + _recovered(batch.states))
            if batch.ranks is not None:
                sync.write_synced_ranks(connection, batch.ranks)
            return number

    def count_states(self) -> dict[str, int]:
        """See the port."""
        with transaction(self._engine) as connection:
            return sync.count_states(connection)


def _views(connection: Connection, found: sync.Survey | None, basis: str) -> Iterator[JobView]:
    holders = sync.read_holders(connection, sync.read_stopping(connection)) if found is None or found.stopping else {}
    cluster = _read_cluster(connection) if holders else None
    wanted = restores.read(connection)
    tasks = read_wave_tasks(connection, sync.read_rolling(connection) if found is None else found.rolling)
    for row in sync.read_jobs(connection, found, basis):
        presence = _presence(row, cluster, holders.get(row.job, set()))
        view = with_plan(job_view(row, presence), row.plan, tasks.get(row.job, {}))
        yield with_restore(view, wanted.get(row.job))


def _tell_of_rollouts(connection: Connection, batch: Batch) -> None:
    for job in batch.forget:
        clear_alert(connection, ROLLED_BACK, job)
    for write in batch.plans:
        if write.rejected is not None:
            raise_rolled_back(connection, write.job, Rejected.model_validate(write.rejected))


def _read_cluster(connection: Connection) -> ClusterView:
    sightings = (Sighting(*row) for row in sync.read_containers(connection))
    return survey(sightings, sync.read_owners(connection))


def _presence(row: sync.JobRow, cluster: ClusterView | None, holders: set[str]) -> Presence:
    if cluster is None or row.running is None or not row.running.stopping:
        return Presence.UNKNOWN
    return observe_stopped(cluster, holders, row.running.commit_number)


def job_view(row: sync.JobRow, presence: Presence) -> JobView:
    """What a decision is made from, of what the store has. Layers of a job that goes are not looked at."""
    return JobView(
        job=row.job,
        revision=row.revision,
        restarts=row.restarts,
        deleting=row.deleting,
        expected=row.merged or expected_config(row.layers),
        running=None if row.running is None else _running(row.running),
        sync=None if row.sync is None else sync_record(row.sync),
        last_generation=row.forgotten_generation or 0,
        presence=presence,
    )


def _running(row: sync.RunningRow) -> Running:
    """A rollout of another revision was left by a State Syncer that knew of none: it is over."""
    rollout = None if row.rollout is None else RunningRollout.model_validate(row.rollout)
    is_of_row = rollout is not None and rollout.revision == row.revision
    return Running(
        config=row.config,
        revision=row.revision,
        generation=row.generation,
        restarts=row.restarts,
        stopping=row.stopping,
        started=row.started,
        commit_number=row.commit_number,
        rollout=rollout if is_of_row else None,
    )


def with_plan(view: JobView, row: PlanRow | None, tasks: Mapping[int, SeenTask]) -> JobView:
    """The view with the recorded plan, and the tasks of a rollout. One that this version cannot read leaves the job
    as it is, with the reason."""
    if row is None:
        return view
    try:
        if is_rollout(row):
            return replace(view, rolling=Rolling(Rollout.model_validate(row.plan), tasks))
        plan = Plan.model_validate(row.plan)
    except ValueError as error:
        return replace(view, expected=Unusable(f"its recorded plan cannot be read: {error}", "plan"))
    return replace(view, progress=Progress(plan, row.newest_generation))


def with_restore(view: JobView, row: RestoreRow | None) -> JobView:
    """The view with the restore that was asked for."""
    if row is None:
        return view
    name = SavepointName(job=row.savepoint_job, name=row.savepoint_name)
    restore = Restore(number=row.number, savepoint=name, generation=row.generation, config=dict(row.config))
    return replace(view, restore=restore)


def sync_record(row: sync.SyncRow) -> SyncRecord:
    """The typed form of a row of `sync_state`."""
    return SyncRecord(
        state=SyncState(row.state),
        revision=row.revision,
        detail=row.detail,
        kind=ChangeKind[row.change_kind.upper()],
        fields=row.changed_fields,
        failures=row.failures,
        next_attempt_at=row.next_attempt_at,
    )


def sync_row(record: SyncRecord) -> sync.SyncRow:
    """The row of a sync state."""
    return sync.SyncRow(
        state=record.state.value,
        detail=record.detail,
        revision=record.revision,
        change_kind=record.kind.name.lower(),
        changed_fields=record.fields,
        failures=record.failures,
        next_attempt_at=record.next_attempt_at,
    )


def _is_quarantined(write: sync.SyncWrite) -> bool:
    return write.new.state == SyncState.QUARANTINED


def _recovered(writes: Sequence[sync.SyncWrite]) -> list[str]:
    """Jobs whose attempts no longer fail, and might have before."""
    return [
        write.job
        for write in writes
        if write.new.failures == 0 and write.seen is not None and write.seen.state != SyncState.SYNCED
    ]
