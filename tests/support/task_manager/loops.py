"""The loops of a container, one step at a time, in a cell in memory."""

from __future__ import annotations

from pathlib import Path
from random import Random

from penstock.model.reports import TaskReport, TaskReportChanges
from penstock.store.running import RUNNING_COMMIT, CommitRow
from penstock.wire.cluster import Snapshot
from services.task_manager.loops.heartbeats import HeartbeatLoop
from services.task_manager.loops.specs import SpecLoop
from services.task_manager.loops.task_manager import TaskManager
from services.task_manager.loops.worker import Worker
from services.task_manager.settings import TaskManagerSettings
from services.task_manager.specs.files import IncarnationFile
from services.task_manager.specs.snapshot_file import SnapshotFile
from services.task_manager.specs.spec_cache import SpecCache
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
        self.lies = False
        self.told: tuple[TaskReport, ...] = ()
        self._clock = clock

    def full(self, after: int = -1, store: str = "") -> Snapshot:
        self.asked.append("full")
        return super().full(after, store)

    def delta(self, after: int, wait_seconds: float, store: str = "") -> Snapshot:
        self.asked.append("delta")
        self._clock.seconds += wait_seconds
        snapshot = super().delta(after, 0.0, store)
        return snapshot.model_copy(update={"digest": 1}) if self.lies else snapshot

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
        self.spec_loop = SpecLoop(container, self.task_service, SnapshotFile(folder), clock, SETTINGS, Random(life))
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

    def specs_here(self) -> SpecCache:
        """What the container knows."""
        specs = self.spec_loop._specs
        assert specs is not None
        return specs

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
