"""A job store with a State Syncer that leads, for stories on a real Postgres."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Engine, text

from penstock.store import leases
from penstock.store.engine import transaction
from penstock.store.running import STATE_SYNCER
from services.state_syncer.decide.budget import Budget
from services.state_syncer.round.loop import StateSyncer
from services.state_syncer.store.port import Batch, SyncStore
from services.state_syncer.store.simple import SimpleCommits
from tests.support.state_syncer.containers import Containers, MemoryHostTasks
from tests.support.store.jobs import make_layer, write_layer


@dataclass
class Cell:
    """A store, a syncer that leads, and a clock that the test moves. `one_by_one`: nothing is committed at once.

    `names`: the live containers, of which the first runs all tasks. They do host tasks as `containers` says. With
    `is_quiet_at_once`, tasks that are to take no more rows say within the round that they have finished their batches.
    With `copies_at_once`, state is copied within the round.
    """

    engine: Engine
    names: Sequence[str] = ()
    one_by_one: bool = False
    now: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    is_quiet_at_once: bool = True
    copies_at_once: bool = True

    def __post_init__(self) -> None:
        self.epoch = elect(self.engine, "first")
        self.looks_soon = False
        self.containers = Containers()
        self.budget = Budget()
        for name in self.names:
            self.container(name)
        self.restart()

    def restart(self, store: Any = None) -> None:
        """Another syncer process: it knows what the store says and nothing else."""
        self.host_tasks = MemoryHostTasks(self.containers)
        self.syncer = self.make_syncer(store or self.make_store())

    def make_store(self) -> SyncStore:
        return OneByOne(self.engine) if self.one_by_one else SyncStore(self.engine)

    def make_syncer(self, store: Any) -> StateSyncer:
        return StateSyncer(store, lambda: self.now, self.host_tasks, budget=self.budget)

    def round(self) -> None:
        self.looks_soon = self.syncer.round(self.epoch)
        if self.copies_at_once and self._is_any_at("copy_state"):
            self.looks_soon = self.syncer.round(self.epoch) and self.syncer.round(self.epoch)
        if self.is_quiet_at_once and self._is_any_at("quiesce"):
            self.quiet()
            self.looks_soon = self.syncer.round(self.epoch)

    def _is_any_at(self, step: str) -> bool:
        return bool(self.rows("SELECT FROM sync_state WHERE plan->>'step' = :step", step=step))

    def quiet(self, *names: str) -> None:
        """These containers, or all, say that no task of a job that takes no more rows is in a batch."""
        self.applied(*names)
        self.do(
            """
            UPDATE tasks SET progress = '{"quiesced": true}' WHERE container = ANY(:names)
                AND job IN (SELECT job FROM running WHERE quiescing_commit = commit_number)
            """,
            names=list(names or self.names),
        )

    def rounds(self, count: int) -> None:
        """Rounds, after each of which the containers have applied what was committed."""
        for _ in range(count):
            self.round()
            self.applied()

    def applied(self, *names: str) -> None:
        """These containers, or all, have applied all commits: tasks that are not served are gone."""
        number = self.rows("SELECT value FROM counters WHERE name = 'running_commit'")[0]["value"]
        served = [row["job"] for row in self.rows("SELECT job FROM running WHERE NOT stopping ORDER BY job")]
        for name in names or self.names:
            self.report(name, number, *(served if name == self.names[0] else ()))
            self._report_other_tasks(name)

    def rescaling(self) -> int:
        """Job j runs with 2 tasks and is asked to have 4; the revision."""
        write_layer(self.engine, "j", make_layer())
        self.rounds(1)
        return write_layer(self.engine, "j", make_layer(task_count=4))

    def rows(self, sql: str, **parameters: Any) -> list[Any]:
        with transaction(self.engine) as connection:
            return list(connection.execute(text(sql), parameters).mappings())

    def do(self, sql: str, **parameters: Any) -> None:
        with transaction(self.engine) as connection:
            connection.execute(text(sql), parameters)

    def running(self, job: str = "j") -> Any:
        found = self.rows("SELECT * FROM running WHERE job = :job", job=job)
        return found[0] if found else None

    def sync(self, job: str = "j") -> Any:
        found = self.rows("SELECT * FROM sync_state WHERE job = :job", job=job)
        return found[0] if found else None

    def step(self, job: str = "j") -> str | None:
        """The step of the job's plan."""
        plan = self.sync(job)["plan"]
        return None if plan is None else str(plan["step"])

    def container(self, name: str, state: str = "live", *, memory_bytes: int = 1) -> None:
        self.do(
            """
            INSERT INTO containers (name, incarnation, url, region, labels, cpu_cores, memory_bytes, disk_bytes, state)
            VALUES (:name, 'life-1', 'http://x', 'r', '{"disk": "ssd"}', 1, :memory_bytes, 1, :state)
            ON CONFLICT (name) DO UPDATE SET state = excluded.state
            """,
            name=name,
            state=state,
            memory_bytes=memory_bytes,
        )

    def report(self, container: str, commit: int, *jobs: str) -> None:
        """What the Task Service stores of a report: the newest commit applied, and all tasks."""
        self.do(
            """
            INSERT INTO reports (container, incarnation, commit_number, version) VALUES (:name, 'life-1', :commit, 1)
            ON CONFLICT (container) DO UPDATE SET commit_number = excluded.commit_number, reported_at = now()
            """,
            name=container,
            commit=commit,
        )
        self.do("DELETE FROM tasks WHERE container = :name", name=container)
        for job in jobs:
            self.do(
                """
                INSERT INTO tasks (job, index, container, state, revision, generation, restarts, epoch)
                VALUES (:job, 0, :name, 'running', 1, 1, 0, 1)
                """,
                job=job,
                name=container,
            )

    def _report_other_tasks(self, container: str) -> None:
        """As `report`: the tasks with an index above 0 of the jobs that the container runs."""
        self.do(
            """
            INSERT INTO tasks (job, index, container, state, revision, generation, restarts, epoch)
            SELECT job, index, :name, 'running', 1, 1, 0, 1
            FROM running, generate_series(1, (config->>'task_count')::int - 1) AS index
            WHERE job IN (SELECT job FROM tasks WHERE container = :name)
            """,
            name=container,
        )


def elect(engine: Engine, holder: str, seconds: float = 600.0, loop: str = STATE_SYNCER) -> int:
    """Makes `holder` the leader, which must be possible; its epoch."""
    with transaction(engine) as connection:
        epoch = leases.take(connection, loop, holder, url="", seconds=seconds)
    assert epoch is not None
    return epoch


def depose(engine: Engine) -> None:
    with transaction(engine) as connection:
        connection.execute(text("UPDATE leases SET expires_at = '-infinity'"))


class Killed(BaseException):
    """Stands for the end of the process."""


def die() -> None:
    """For `Interfering`: the process ends here."""
    raise Killed


class OneByOne(SyncStore):
    """Leaves simple commits to the decisions."""

    def commit_simple(self, leader_epoch: int, *args: Any, **options: Any) -> SimpleCommits:
        return SimpleCommits()


class Interfering(SyncStore):
    """Does something once, between the decisions of a round and their writing; dies there when that raises.

    `after_write`: what was to be written is written first. `simple`: at the simple commits, not at the other writes;
    otherwise there are no simple commits.
    """

    def __init__(self, engine: Engine, interfere: Any, *, after_write: bool = False, simple: bool = False) -> None:
        super().__init__(engine)
        self._at_simple = simple
        self._interfere = interfere
        self._after_write = after_write
        self._done = False

    def write(self, batch: Batch, leader_epoch: int) -> int | None:
        if not self._at_simple:
            self._meddle(lambda: super(Interfering, self).write(batch, leader_epoch))
        return super().write(batch, leader_epoch)

    def commit_simple(self, leader_epoch: int, *args: Any, **options: Any) -> SimpleCommits:
        if not self._at_simple:
            return SimpleCommits()
        self._meddle(lambda: super(Interfering, self).commit_simple(leader_epoch, *args, **options))
        return super().commit_simple(leader_epoch, *args, **options)

    def _meddle(self, write: Callable[[], object]) -> None:
        if self._after_write:
            write()
        if not self._done:
            self._done = True
            self._interfere()
