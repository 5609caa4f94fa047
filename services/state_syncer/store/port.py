"""The State Syncer's port to the job store."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from sqlalchemy import Connection, Engine, text

from penstock.config.basis import merge_basis
from penstock.model.alerts import AlertKind
from penstock.store import leases
from penstock.store.alerts import clear_alerts
from penstock.store.engine import transaction
from penstock.store.json import as_json
from penstock.store.running import STATE_SYNCER, UNASKED_STOP, CommitRow, commit_many, forget_many
from services.state_syncer.decide.budget import Waits
from services.state_syncer.decide.effects import PlanWrite
from services.state_syncer.decide.progress import PlanRow
from services.state_syncer.decide.view import JobView
from services.state_syncer.generations import store as generations
from services.state_syncer.host_tasks.next_attempt import LiveContainer
from services.state_syncer.host_tasks.store import read_state_bytes
from services.state_syncer.store import guards, jobs, states
from services.state_syncer.store.plans import count_running, read_live_containers, read_plans, write_plans
from services.state_syncer.store.rollouts import RollingJobs, alert_of_plans, clear_rejected, read_rolling_jobs
from services.state_syncer.store.simple import SimpleCommits, commit_simple, queue_others
from services.state_syncer.store.states import Ranks, SyncWrite

RanOn = Callable[[Sequence[str]], Mapping[str, Collection[str]]]
StateBytes = Callable[[Sequence[str]], Mapping[str, int]]
Named = Callable[[Sequence[str]], Iterator[JobView]]

_RAISE_UNASKED_STOP = text("UPDATE counters SET value = :commit WHERE name = :name AND value < :commit")
_RESTORES_DONE = text(
    """
    DELETE FROM restores USING json_to_recordset(CAST(:rows AS json)) AS done(job text, number bigint)
    WHERE restores.job = done.job AND restores.number = done.number
    """
)


def nothing_known(jobs: Sequence[str]) -> Mapping[str, int]:
    """No job's tasks reported the size of their state."""
    return {}


class Queue(Protocol):
    """Reads the jobs that wait for room."""

    def __call__(self, *, rescales: int, rollouts: int) -> Iterator[JobView]:
        """Those that come first, at most so many of each sort."""
        ...


@dataclass(frozen=True, slots=True)
class RoundInput:
    """What a round reads, of one moment.

    `fresh` and `others`: the names of the jobs to decide about; `commit_simple` may commit or queue those that are
    `fresh`. `others` are all jobs when `new_ranks` says that the ranks of layers changed. `drifted` names the `synced`
    jobs whose running row is missing, older or not whole; this takes longer. `rolling` reads the jobs with a recorded
    rollout, without configurations. `named` reads jobs by name, `queued` those that wait for room. `plans`:
    all that are recorded of rescales. `ran_on` gives the containers that have tasks of jobs, `state_bytes` the size of
    their state where it is known.
    """

    fresh: Sequence[str]
    others: Sequence[str]
    drifted: Callable[[], Sequence[str]]
    rolling: Callable[[], RollingJobs]
    named: Named
    queued: Queue
    new_ranks: Ranks | None
    plans: Mapping[str, PlanRow]
    containers: Mapping[str, LiveContainer]
    count_running: Callable[[], int]
    ran_on: RanOn
    state_bytes: StateBytes = nothing_known

    @property
    def views(self) -> Iterator[JobView]:
        """The jobs to decide about."""
        return self.named([*self.others, *self.fresh])


@dataclass(slots=True)
class Batch:
    """All that a round writes.

    `remade`: committed jobs that have the name of a forgotten one. `restored`: the numbers of the restores
    that were done, by job. `starts`: the jobs that get their first tasks or checkpoints, with the revision of their
    newest write; `seals`: those that give up their old generation for a savepoint, with the number of the restore.
    When such a job was written to since it was read, or the restore cancelled, nothing of it is written:
    `SyncStore.write` notes it in `left_out`. `unasked_stop`: the newest commit of a stop that
    will be taken as done without a report of every container; 0: of none.
    """

    commits: list[CommitRow] = field(default_factory=list)
    remade: list[str] = field(default_factory=list)
    forget: list[str] = field(default_factory=list)
    states: list[SyncWrite] = field(default_factory=list)
    plans: list[PlanWrite] = field(default_factory=list)
    restored: dict[str, int] = field(default_factory=dict)
    ranks: Ranks | None = None
    unasked_stop: int = 0
    starts: dict[str, int] = field(default_factory=dict)
    seals: dict[str, int] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()

    def without(self, jobs: Collection[str]) -> Batch:
        """The same without anything about these jobs."""
        return Batch(
            commits=[row for row in self.commits if row.job not in jobs],
            remade=[job for job in self.remade if job not in jobs],
            forget=[job for job in self.forget if job not in jobs],
            states=[write for write in self.states if write.job not in jobs],
            plans=[write for write in self.plans if write.job not in jobs],
            restored={job: number for job, number in self.restored.items() if job not in jobs},
            ranks=self.ranks,
            unasked_stop=self.unasked_stop,
        )

    def __bool__(self) -> bool:
        """Whether there is anything to write."""
        return self != Batch()


class SyncStore:
    """What the loop asks of the job store."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        # One snapshot for all that a round reads: a task's row and its container's report must be of one moment.
        self._snapshot = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)

    @contextmanager
    def read(self) -> Iterator[RoundInput]:
        """What a round must read, at one moment; the views are valid inside the context. Raises Unavailable."""
        with transaction(self._snapshot) as connection:
            ranks = states.read_ranks(connection)
            yield _round_input(connection, ranks)

    def commit_simple(
        self, leader_epoch: int, waits: Waits, *, names: Sequence[str] | None, sample: int
    ) -> SimpleCommits:
        """Commits simple differences, and notes which other jobs wait for room. Nothing at all is a legal answer: what
        is left is for `read`. Raises Fenced, Unavailable and StatementTimedOut.

        Jobs are merged anew under new ranks, so nothing is done here then.
        """
        with leases.fenced(self._engine, STATE_SYNCER, leader_epoch) as connection:
            ranks = states.read_ranks(connection)
            if ranks.present != ranks.synced:
                return SimpleCommits()
            basis = merge_basis(ranks.lowest_first)
            committed = commit_simple(connection, basis, leader_epoch, names=names, sample=sample)
            queue_others(connection, basis, waits, names=names)
            return committed

    def write(self, batch: Batch, leader_epoch: int) -> int | None:
        """Writes all of it or nothing, but for what is then in `batch.left_out`; the commit number. Raises Fenced and
        Unavailable."""
        with leases.fenced(self._engine, STATE_SYNCER, leader_epoch) as connection:
            batch.left_out = guards.changed_since(connection, batch.starts, batch.seals)
            batch = batch.without(batch.left_out) if batch.left_out else batch
            forget_many(connection, batch.forget, leader_epoch)
            number = commit_many(connection, batch.commits, leader_epoch, remade=batch.remade)
            states.write_sync_states(connection, batch.states)
            write_plans(connection, batch.plans)
            if of_generations := [write.job for write in batch.plans if write.has_generations]:
                generations.note(connection, of_generations)
            _alert_of_rollouts(connection, batch)
            _end_restores(connection, batch.restored)
            states.alert_of_quarantines(connection, batch.states)
            clear_alerts(connection, AlertKind.QUARANTINED, batch.forget)
            if batch.ranks is not None:
                states.write_synced_ranks(connection, batch.ranks)
            if batch.unasked_stop:
                connection.execute(_RAISE_UNASKED_STOP, {"name": UNASKED_STOP, "commit": batch.unasked_stop})
            return number

    def count_states(self) -> dict[str, int]:
        """How many jobs are in each sync state. Raises Unavailable."""
        with transaction(self._engine) as connection:
            return states.count_states(connection)


def _round_input(connection: Connection, ranks: states.RanksRow) -> RoundInput:
    basis = merge_basis(ranks.lowest_first)
    facts = jobs.read_facts(connection)
    new_ranks = None if ranks.present == ranks.synced else ranks.present
    found = jobs.read_survey(connection, all_jobs=new_ranks is not None)

    def named(names: Sequence[str]) -> Iterator[JobView]:
        return jobs.read_views(connection, names, basis, facts)

    def queued(*, rescales: int, rollouts: int) -> Iterator[JobView]:
        return named(jobs.read_queue(connection, rescales=rescales, rollouts=rollouts))

    return RoundInput(
        fresh=found.fresh,
        others=found.others,
        drifted=partial(jobs.read_drifted, connection),
        rolling=partial(read_rolling_jobs, connection, basis),
        named=named,
        queued=queued,
        new_ranks=new_ranks,
        plans=read_plans(connection),
        containers=read_live_containers(connection),
        count_running=lambda: count_running(connection),
        ran_on=partial(jobs.read_holders, connection),
        state_bytes=partial(read_state_bytes, connection),
    )


def _alert_of_rollouts(connection: Connection, batch: Batch) -> None:
    clear_rejected(connection, batch.forget)
    clear_alerts(connection, AlertKind.ROLLOUT_LATE, batch.forget)
    alert_of_plans(connection, batch.plans)


def _end_restores(connection: Connection, restored: Mapping[str, int]) -> None:
    """These jobs were restored, by the numbers of their restores; newer ones stay."""
    if restored:
        rows = [{"job": job, "number": number} for job, number in restored.items()]
        connection.execute(_RESTORES_DONE, {"rows": as_json(rows)})
