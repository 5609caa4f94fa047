"""The loops of a container in a cell in memory: heartbeats with and without a Shard Manager, specs and reports."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from penstock.model.reports import TaskReport, TaskReportChanges
from penstock.store.running import RUNNING_COMMIT, CommitRow
from penstock.tasks.dimensions import CPU
from penstock.wire.cluster import Snapshot
from services.task_manager.loops.heartbeats import HeartbeatLoop
from services.task_manager.loops.specs import SpecLoop
from services.task_manager.loops.task_manager import TaskManager
from services.task_manager.loops.worker import Worker
from services.task_manager.settings import TaskManagerSettings
from services.task_manager.specs.files import IncarnationFile
from services.task_manager.specs.snapshot_file import SnapshotFile
from tests.support.control.clock import FakeClock
from tests.support.memory.ownership import MemoryLeaseStore, MemoryShardAuthority
from tests.support.memory.specs import MemoryTaskService
from tests.support.memory.store import MemoryPort, MemoryStore, RunningEntry
from tests.support.task_manager.world import SHARDS, World, template

SETTINGS = TaskManagerSettings()
CONTAINER = "c1"
JOB = "flights"
BOTH = {f"{JOB}/0", f"{JOB}/1"}


class RecordingTaskService(MemoryTaskService):
    """Notes whether it is asked for a full snapshot or for a delta. A delta waits by the clock of the test."""

    def __init__(self, store: MemoryStore, clock: FakeClock) -> None:
        super().__init__(store)
        self.asked: list[str] = []
        self.told: tuple[TaskReport, ...] = ()
        self._clock = clock

    def full(self) -> Snapshot | None:
        self.asked.append("full")
        return super().full()

    def delta(self, after: int, wait_seconds: float) -> Snapshot:
        self.asked.append("delta")
        self._clock.seconds += wait_seconds
        return super().delta(after, 0.0)

    def report_changes(self, changes: TaskReportChanges) -> bool:
        self.told = changes.tasks
        return super().report_changes(changes)


class Loops:
    """A container with its loops, and the ports through which they reach the cell: each of them can be down."""

    def __init__(self, folder: Path, memory: MemoryStore | None = None, life: str = "life") -> None:
        self.world = World(life=life)
        self.memory = memory or new_memory(self.world.clock)
        clock, container = self.world.clock, self.world.container
        self.shard_manager = MemoryShardAuthority(self.memory, lease_seconds=40.0)
        self.store = MemoryLeaseStore(self.memory, CONTAINER)
        self.task_service = RecordingTaskService(self.memory, clock)
        self.heartbeat_loop = HeartbeatLoop(
            container, self.shard_manager, self.store, IncarnationFile(folder), clock, SETTINGS
        )
        self.spec_loop = SpecLoop(container, self.task_service, SnapshotFile(folder), clock, SETTINGS)
        self.spec_loop.load()
        manager = TaskManager(
            container, self.heartbeat_loop, self.spec_loop, self.task_service, clock, SETTINGS, Random(1)
        )
        steps = (self.heartbeat_loop.step, self.spec_loop.step, manager.report)
        self.heartbeats, self.specs, self.reports = (
            Worker("loop", step, clock, SETTINGS.retry_seconds) for step in steps
        )

    def begin(self) -> None:
        """A heartbeat is answered and specs come: the tasks run."""
        assert self.heartbeats.step() == SETTINGS.heartbeat_seconds
        self.specs.step()
        self.world.settle()
        assert self.world.running() == BOTH

    def beat(self) -> None:
        """One heartbeat, and all that follows from its answer."""
        self.heartbeats.step()
        self.world.settle()

    def only_down(self, *ports: MemoryPort) -> None:
        """These ports are down now, and no others."""
        for port in (self.shard_manager, self.store, self.task_service):
            port.down = port in ports

    def epochs(self) -> dict[str, int]:
        """The epochs under which the tasks run, by task id."""
        return {name: start.epoch for name, start in self.world.hosts.running().items()}

    def reported(self) -> tuple[TaskReport, ...]:
        """The tasks of the newest report."""
        return self.memory.tasks[CONTAINER]


def new_memory(clock: FakeClock) -> MemoryStore:
    """A store with a job of two tasks, at commit 1, whose shards nobody owns."""
    memory = MemoryStore(clock.monotonic, SHARDS)
    memory.give(range(SHARDS), None)
    commit(memory, 1)
    return memory


def commit(memory: MemoryStore, number: int, job: str = JOB) -> None:
    """The job is all there is, written by the commit with this number."""
    row = CommitRow(job, template(job).config.model_dump_json().encode(), 1, 1, 0, False, True)
    memory.running = {job: RunningEntry(row, number)}
    memory.counters[RUNNING_COMMIT] = number


@pytest.fixture
def loops(tmp_path: Path) -> Loops:
    return Loops(tmp_path)


def test_tasks_run_on_while_everything_else_is_down(loops: Loops) -> None:
    """
    1. A heartbeat is answered and specs come: tasks run.
    2. The Shard Manager and the Task Service go down: the container renews its own lease row, for five minutes.
    3. The Shard Manager comes back: nothing was stopped meanwhile.
    """
    loops.begin()
    world = loops.world
    starts = dict(world.hosts.running())
    loops.only_down(loops.shard_manager, loops.task_service)
    for _ in range(30):
        world.clock.seconds += loops.heartbeats.step()
        assert loops.memory.renewed_at[CONTAINER] == world.clock.seconds - SETTINGS.heartbeat_seconds
        assert loops.specs.step() == SETTINGS.retry_seconds
        world.settle()
    loops.only_down()
    assert loops.heartbeats.step() == SETTINGS.heartbeat_seconds
    assert world.hosts.running() == starts


def test_without_shard_manager_and_store_the_lease_runs_out(loops: Loops) -> None:
    """
    1. Tasks run; the Shard Manager and the store are down: after 40 s everything stops.
    2. The store comes back: the container takes the place of its own former life, and its tasks start again.
    """
    loops.begin()
    world, before = loops.world, loops.epochs()
    loops.only_down(loops.shard_manager, loops.store)
    for _ in range(30):
        world.clock.seconds += loops.heartbeats.step()
        world.settle()
    assert world.running() == set()
    loops.only_down(loops.shard_manager)
    loops.beat()
    assert loops.epochs().keys() == before.keys()
    assert min(loops.epochs().values()) > max(before.values())


def test_a_life_that_the_store_calls_lost_stops(loops: Loops) -> None:
    """
    1. Tasks run; the Shard Manager is down, and the row names another life.
    2. The tasks stop at once, long before the lease would have run out.
    """
    loops.begin()
    loops.only_down(loops.shard_manager)
    loops.memory.members[CONTAINER] = loops.memory.members[CONTAINER]._replace(incarnation="another")
    loops.beat()
    assert loops.world.running() == set()


def test_a_restarted_task_manager_needs_neither_service(loops: Loops, tmp_path: Path) -> None:
    """
    1. A first life runs tasks; then it is gone, and so are the Shard Manager and the Task Service.
    2. The second life has the snapshot from the disk, and takes the first one's place in the store: tasks run, under
       a new epoch.
    3. It may not before the store says so.
    """
    loops.begin()
    before = loops.epochs()
    second = Loops(tmp_path, loops.memory, life="second")
    second.only_down(second.shard_manager, second.task_service, second.store)
    second.beat()
    assert second.world.running() == set()
    second.only_down(second.shard_manager, second.task_service)
    second.beat()
    assert second.epochs().keys() == BOTH
    assert min(second.epochs().values()) > max(before.values())


def test_a_life_that_begins_by_the_store_starts_nothing_from_specs_older_than_it(loops: Loops) -> None:
    """
    1. A container's lease runs out, and meanwhile its job is committed anew: a stop of it is not waited for by name.
    2. It takes the place of its former life in the store: its specs are of before that, and it starts nothing.
    3. The specs of that commit come: its tasks run.
    """
    loops.begin()
    world = loops.world
    world.clock.seconds += 60
    world.settle()
    assert world.running() == set()
    loops.only_down(loops.shard_manager)
    commit(loops.memory, 2)
    loops.beat()
    assert world.container.summary().shards.keys() == set(range(SHARDS))
    assert world.running() == set()
    loops.specs.step()
    world.settle()
    assert world.running() == BOTH


def test_a_container_that_nobody_knows_does_nothing(loops: Loops) -> None:
    """
    1. A first life with an empty disk and no Shard Manager: it has no lease, and asks again soon.
    """
    loops.only_down(loops.shard_manager)
    assert loops.heartbeats.step() == SETTINGS.retry_seconds
    assert loops.world.container.summary().lease_seconds_left == 0


def test_specs_are_fetched_in_full_once_a_minute_and_by_deltas_in_between(loops: Loops) -> None:
    """
    1. Deltas wait up to 20 s each, so every minute has one full fetch and three deltas.
    """
    for _ in range(9):
        loops.specs.step()
    assert loops.task_service.asked == ["full", "delta", "delta", "delta"] * 2 + ["full"]


def test_a_store_that_went_back_is_believed_when_a_delta_says_so(loops: Loops) -> None:
    """
    1. The cache of specs is at commit 9; a full fetch from an older cache, at commit 4, changes nothing.
    2. A delta is answered in full at commit 4: the store itself was restored, and that is what runs now.
    """
    commit(loops.memory, 9)
    loops.specs.step()
    commit(loops.memory, 4, job="old")
    loops.world.clock.seconds += 60
    loops.specs.step()
    assert loops.task_service.asked == ["full", "full"]
    assert loops.world.container.summary().commit_number == 9
    loops.specs.step()
    assert loops.task_service.asked[-1] == "delta"
    assert loops.world.container.summary().commit_number == 4


def test_reports_are_of_the_newest_state(loops: Loops) -> None:
    """
    1. The Task Service is down: a report fails, and is not kept.
    2. It is back: the next report is what runs by then.
    """
    loops.only_down(loops.task_service)
    assert loops.reports.step() == SETTINGS.retry_seconds
    assert CONTAINER not in loops.memory.tasks
    loops.only_down()
    loops.begin()
    loops.reports.step()
    assert len(loops.reported()) == 2


def test_only_what_changed_is_reported(loops: Loops) -> None:
    """1. All tasks. 2. Nothing new. 3. The store has lost its place, and the rows: all tasks, at once."""
    loops.begin()
    loops.reports.step()
    assert loops.memory.reports[CONTAINER].base == 1
    loops.reports.step()
    assert (loops.memory.reports[CONTAINER].number, loops.memory.reports[CONTAINER].base) == (2, 1)
    loops.memory.want_full_report(CONTAINER)
    loops.memory.tasks[CONTAINER] = ()
    assert loops.reports.step() == 0.0
    assert loops.reports.step() == SETTINGS.report_seconds
    assert {f"{task.job}/{task.index}" for task in loops.reported()} == BOTH


def test_a_load_is_told_until_the_task_service_has_taken_it(loops: Loops) -> None:
    """
    1. A host measures a task for a minute; the Task Service is down.
    2. It comes back: the load is told. 3. The next report has nothing new of it. 4. A task that moved away has no load.
    """
    loops.begin()
    world = loops.world
    for _ in range(7):
        world.host_of("flights/0").measure({"flights/0": {CPU: 0.5}, "flights/9": {CPU: 9.0}})
        world.clock.seconds += 10
        loops.heartbeats.step()
    loops.only_down(loops.task_service)
    loops.reports.step()
    loops.only_down()
    loops.reports.step()
    assert [task.load for task in loops.reported()] == [{CPU: 0.5}, None]
    loops.reports.step()
    assert loops.task_service.told == ()
    world.container.drop(world.order(loops.memory.shards_of(CONTAINER)))
    world.settle()
    assert world.container.report().tasks == ()
