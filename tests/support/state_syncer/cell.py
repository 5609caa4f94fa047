"""A job store with a State Syncer that leads, for stories on a real Postgres."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Engine, text

from penstock.store import leases
from penstock.store.engine import transaction
from penstock.store.running import STATE_SYNCER
from services.state_syncer.decide.budget import Budget
from services.state_syncer.host_tasks.dispatcher import HostTasks
from services.state_syncer.host_tasks.outcomes import Attempt, AttemptKey, Outcome, Unanswered
from services.state_syncer.round.loop import StateSyncer
from services.state_syncer.store.port import Batch, SyncStore
from services.state_syncer.store.simple import SimpleCommits


class NobodyToAsk(HostTasks):
    """The host tasks of a cell without containers: nothing is ever answered."""

    def __init__(self) -> None:
        pass

    def outcome(self, key: AttemptKey) -> Outcome:
        return Unanswered()

    def want(self, attempts: Iterable[Attempt], leader_epoch: int) -> None:
        pass


@dataclass
class Cell:
    """A store, a syncer that leads, and a clock that the test moves. `one_by_one`: nothing is committed at once."""

    engine: Engine
    epoch: int
    now: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    one_by_one: bool = False

    def __post_init__(self) -> None:
        self.looks_soon = False
        self.host_tasks: HostTasks = NobodyToAsk()
        self.budget = Budget()
        self.syncer = self.make_syncer(self.make_store())

    def make_store(self) -> SyncStore:
        return OneByOne(self.engine) if self.one_by_one else SyncStore(self.engine)

    def make_syncer(self, store: Any) -> StateSyncer:
        return StateSyncer(store, lambda: self.now, self.host_tasks, budget=self.budget)

    def round(self) -> None:
        self.looks_soon = self.syncer.round(self.epoch)

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

    def container(self, name: str, state: str = "live") -> None:
        self.do(
            """
            INSERT INTO containers (name, incarnation, url, region, labels, cpu_cores, memory_bytes, disk_bytes, state)
            VALUES (:name, 'life-1', 'http://x', 'r', '{"disk": "ssd"}', 1, 1, 1, :state)
            ON CONFLICT (name) DO UPDATE SET state = excluded.state
            """,
            name=name,
            state=state,
        )

    def report(self, container: str, commit: int, *jobs: str) -> None:
        """What the Task Service stores of a report: the newest commit applied, and all tasks."""
        self.do(
            """
            INSERT INTO reports (container, incarnation, commit_number, version) VALUES (:name, 'life-1', :commit, 1)
            ON CONFLICT (container) DO UPDATE SET commit_number = excluded.commit_number
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


def elect(engine: Engine, holder: str, seconds: float = 600.0) -> int:
    with transaction(engine) as connection:
        epoch = leases.take(connection, STATE_SYNCER, holder, url="", seconds=seconds)
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
