"""Task Managers and a Shard Manager, real but for the Spark hosts: shards are given, moved, given up, failed over."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sqlalchemy import Engine

from penstock.control.clock import SystemClock
from penstock.control.errors import Unavailable
from penstock.control.process import wait_until
from penstock.local.ports import free_port
from penstock.model.reports import TaskReportBatch
from penstock.spark.channel import Command, Start
from penstock.store.cluster import ask_for_shards, read_facts
from penstock.store.engine import transaction
from penstock.wire.cluster import Identity, Snapshot
from penstock.wire.shard_client import ShardManagerClient
from services.task_manager.api import build_app
from services.task_manager.container import Container
from services.task_manager.loops.heartbeats import HeartbeatLoop
from services.task_manager.loops.specs import SpecLoop
from services.task_manager.loops.task_manager import TaskManager
from services.task_manager.membership.stored_lease import StoredLease
from services.task_manager.settings import TaskManagerSettings
from services.task_manager.specs.files import IncarnationFile
from services.task_manager.specs.snapshot_file import SnapshotFile
from tests.support.control.serving import serving
from tests.support.identity import container
from tests.support.identity import identity as identity_of
from tests.support.shard_manager.manager import shard_manager
from tests.support.task_manager.fake_hosts import FakeHost, FakeHosts
from tests.support.task_manager.world import CAPACITY, SHARDS, template

SETTINGS = TaskManagerSettings(
    reconcile_seconds=0.1,
    heartbeat_seconds=0.1,
    retry_seconds=0.1,
    container_lease_seconds=1.0,
    delta_wait_seconds=0.5,
    report_seconds=0.5,
    report_gap_seconds=0.02,
    lease_stop_seconds=0.5,
    evacuate_seconds=1.0,
)
JOB = template(task_count=8)
ALL = {f"flights/{index}" for index in range(8)}


class PromptHosts(FakeHosts):
    """Hosts that do at once what they are told. `twice`: the tasks that began while those of `others` ran them."""

    def __init__(self) -> None:
        super().__init__()
        self.others: list[FakeHosts] = []
        self.twice: list[str] = []

    def start(self, *args: object) -> FakeHost:
        host = super().start(*args)
        host.send = lambda command: self._send(host, command)  # type: ignore[method-assign]
        host.become_ready()
        return host

    def _send(self, host: FakeHost, command: Command) -> None:
        if isinstance(command, Start):
            name = command.spec.task_id
            self.twice += [name for other in self.others if name in other.running()]
        FakeHost.send(host, command)
        host.answer()


class OneJob:
    """A Task Service with one job; `away` while it does not answer."""

    def __init__(self) -> None:
        self.away = False

    def full(self, after: int = -1, store: str = "") -> Snapshot:
        self._answer()
        return Snapshot(full=True, commit_number=1, shard_count=SHARDS, templates=(JOB,))

    def delta(self, after: int, wait_seconds: float, store: str = "") -> Snapshot:
        self._answer()
        return Snapshot(full=False, commit_number=1, shard_count=SHARDS, templates=())

    def report(self, batch: TaskReportBatch, number: int) -> bool:
        """Nobody reads it."""
        self._answer()
        return False

    def _answer(self) -> None:
        if self.away:
            raise Unavailable("the Task Service is away")


class Member:
    """A container in this process; `hosts` shows what it runs."""

    def __init__(self, name: str, engine: Engine, manager_url: str, folder: Path, specs: Any = None) -> None:
        self.name = name
        self.port, self.hosts, self.specs, clock = free_port(), PromptHosts(), specs or OneJob(), SystemClock()
        url = f"http://127.0.0.1:{self.port}"
        identity = Identity(container=name, url=url, region="local", capacity=CAPACITY)
        lives = iter(f"{name}-life-{number}" for number in range(1000))
        self.container = Container(identity, SETTINGS, self.hosts, clock, lambda: next(lives))
        self.authority = ShardManagerClient(manager_url, identity=container(name))
        store = StoredLease(engine, name)
        self.manager = TaskManager(
            self.container,
            HeartbeatLoop(self.container, self.authority, store, IncarnationFile(folder / name), clock, SETTINGS),
            SpecLoop(self.container, self.specs, SnapshotFile(folder / name), clock, SETTINGS, Random(name)),
            self.specs,
            clock,
            SETTINGS,
            Random(name),
        )

    def running(self) -> set[str]:
        return set(self.hosts.running())

    @contextmanager
    def joined(self) -> Iterator[Member]:
        """In the cell until the end; then its tasks stop and it says nothing more."""
        with serving(build_app(self.container, identity_of(f"task_manager/{self.name}")), self.port):
            self.manager.start()
            try:
                yield self
            finally:
                self.manager.stop(5.0)


@pytest.fixture
def engine(engine: Engine) -> Engine:
    with transaction(engine) as connection:
        ask_for_shards(connection, SHARDS)
    return engine


def is_shared_out(members: list[Member]) -> bool:
    """Every task runs exactly once, and everybody runs something."""
    running = [member.running() for member in members]
    return all(running) and sum(map(len, running)) == 8 and set().union(*running) == ALL


def test_shards_follow_the_containers_and_no_task_ever_runs_twice(
    database_url: str, engine: Engine, tmp_path: Path
) -> None:
    """
    1. One container gets all shards and runs all tasks.
    2. A second one joins: shards move by DROP and ADD until both run tasks.
    3. A task of the first is fenced: its shard is given up and comes back to somebody under a new epoch.
    4. The Shard Manager goes away for more than a lease: both run on by the store, and nothing is started.
    5. It comes back; the second container leaves: the first runs everything again.
    """
    with ExitStack() as stack:
        cell = stack.enter_context(ExitStack())
        port = free_port()
        url = cell.enter_context(shard_manager(database_url, port=port)).url
        first = stack.enter_context(Member("c1", engine, url, tmp_path).joined())
        wait_until(lambda: first.running() == ALL, 20, "one container to run everything")
        leaving = stack.enter_context(ExitStack())
        second = leaving.enter_context(Member("c2", engine, url, tmp_path).joined())
        wait_until(lambda: is_shared_out([first, second]), 20, "both to run tasks")
        (host,) = (host for host in first.hosts.alive() if host.tasks)
        fenced = min(host.tasks)
        epoch = host.tasks[fenced].epoch
        host.end_task(fenced, kind="fenced")
        wait_until(lambda: is_shared_out([first, second]), 20, "the fenced task to run again")
        assert {**first.hosts.running(), **second.hosts.running()}[fenced].epoch > epoch
        starts = [member.container.summary().totals["task_starts"] for member in (first, second)]
        cell.close()
        lease_ends_at = SystemClock().monotonic() + 3.0
        wait_until(lambda: SystemClock().monotonic() > lease_ends_at, 10, "three leases to pass", poll_s=0.2)
        assert is_shared_out([first, second])
        assert [member.container.summary().totals["task_starts"] for member in (first, second)] == starts
        stack.enter_context(shard_manager(database_url, port=port))
        leaving.close()
        wait_until(lambda: first.running() == ALL, 30, "the first container to run everything again")
        assert [member.container.summary().double_run_seconds for member in (first, second)] == [0, 0]


def test_a_drop_that_takes_too_long_kills_the_host_and_the_shards_move(
    database_url: str, engine: Engine, tmp_path: Path
) -> None:
    """
    1. One container runs all tasks on a host that then hears nothing any more.
    2. Another joins: DROP asks for half of the shards, whose tasks do not stop. At its deadline the host is killed.
    3. The shards move; the tasks of the others start again on another host.
    """
    with ExitStack() as stack:
        url = stack.enter_context(shard_manager(database_url)).url
        first = stack.enter_context(Member("c1", engine, url, tmp_path).joined())
        wait_until(lambda: first.running() == ALL, 20, "one container to run everything")
        (host,) = (host for host in first.hosts.alive() if host.tasks)
        host.stuck = True
        second = stack.enter_context(Member("c2", engine, url, tmp_path).joined())
        wait_until(lambda: host.how is not None, 20, "the host to be killed")
        wait_until(lambda: is_shared_out([first, second]), 20, "both to run tasks")
        assert not first.running() & second.running()
        assert [member.container.summary().double_run_seconds for member in (first, second)] == [0, 0]


def test_shards_are_failed_over_while_the_task_service_is_away(
    database_url: str, engine: Engine, tmp_path: Path
) -> None:
    """1. Two containers share. 2. The Task Service goes. 3. One container dies: the other runs all by what it knows."""
    with ExitStack() as stack:
        url = stack.enter_context(shard_manager(database_url)).url
        first = stack.enter_context(Member("c1", engine, url, tmp_path).joined())
        leaving = stack.enter_context(ExitStack())
        second = leaving.enter_context(Member("c2", engine, url, tmp_path).joined())
        wait_until(lambda: is_shared_out([first, second]), 20, "both to run tasks")
        first.specs.away = second.specs.away = True
        leaving.close()
        assert wait_until(lambda: first.running() == ALL, 30, "one container to run everything")


def test_the_number_of_shards_changes_while_tasks_run_and_none_ever_runs_twice(
    database_url: str, engine: Engine, tmp_path: Path
) -> None:
    """
    1. Two containers share. Twice as many shards: both learn it, every task runs on.
    2. Twice as many again; the Shard Manager ends at that moment, and another takes over.
    3. A quarter of that and less; one container ends at that moment. The other gets what is left.
    """

    def shard_count() -> int:
        with transaction(engine) as connection:
            return read_facts(connection).sharding.count

    def ask(count: int) -> None:
        with transaction(engine) as connection:
            ask_for_shards(connection, count)

    with ExitStack() as stack:
        port = free_port()
        cell = stack.enter_context(ExitStack())
        url = cell.enter_context(shard_manager(database_url, port=port)).url
        first = stack.enter_context(Member("c1", engine, url, tmp_path).joined())
        leaving = stack.enter_context(ExitStack())
        second = leaving.enter_context(Member("c2", engine, url, tmp_path).joined())
        first.hosts.others, second.hosts.others = [second.hosts], [first.hosts]
        both = [first, second]

        def know(count: int) -> bool:
            sharding = [member.container.sharding() for member in both]
            return shard_count() == count and all(each is not None and each.count == count for each in sharding)

        wait_until(lambda: is_shared_out(both), 20, "both to run tasks")
        ask(2 * SHARDS)
        wait_until(lambda: know(2 * SHARDS) and is_shared_out(both), 20, "both to run tasks of the parts")
        ask(4 * SHARDS)
        cell.close()
        stack.enter_context(shard_manager(database_url, port=port))
        wait_until(lambda: know(4 * SHARDS) and is_shared_out(both), 20, "both to follow the next leader")
        ask(SHARDS // 2)
        leaving.close()
        wait_until(lambda: first.running() == ALL and shard_count() == SHARDS // 2, 30, "the first to run everything")
        assert [member.hosts.twice for member in both] == [[], []]
        assert [member.container.summary().double_run_seconds for member in both] == [0, 0]
