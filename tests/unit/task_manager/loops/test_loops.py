"""The loops: heartbeats with and without a Shard Manager, specs and reports."""

from __future__ import annotations

from pathlib import Path

from penstock.control.errors import LeaseLost, Unavailable
from penstock.model.reports import TaskReportBatch
from penstock.tasks.dimensions import CPU
from penstock.tasks.ownership import OwnedShards
from penstock.tasks.shards import Sharding
from penstock.wire.cluster import HeartbeatAnswer, HeartbeatRequest, Snapshot
from services.task_manager.loops.heartbeats import HeartbeatLoop
from services.task_manager.loops.specs import SpecLoop
from services.task_manager.loops.task_manager import TaskManager
from services.task_manager.loops.worker import Worker
from services.task_manager.settings import TaskManagerSettings
from services.task_manager.specs.files import IncarnationFile
from services.task_manager.specs.snapshot_file import SnapshotFile
from tests.support.task_manager.world import SHARDS, World, all_shards, template

SETTINGS = TaskManagerSettings()


class Cell:
    """A Shard Manager, a Task Service and a store, each of which can be down."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.down: set[str] = set()
        self.row: str | None = None
        self.version = 1
        self.commit_number = 1
        self.snapshot = Snapshot(full=True, commit_number=1, shard_count=SHARDS, templates=(template(),))
        self.asked: list[str] = []
        self.reports: list[TaskReportBatch] = []

    def _ask(self, who: str, what: str) -> None:
        self.asked.append(what)
        if who in self.down:
            raise Unavailable(f"{who} is down")

    def heartbeat(self, request: HeartbeatRequest) -> HeartbeatAnswer:
        self._ask("shard_manager", "heartbeat")
        self.row = request.incarnation
        return HeartbeatAnswer(
            known=True, version=self.version, shard_count=SHARDS, lease_seconds=40.0, shards=all_shards(self.version)
        )

    def renew(self, incarnation: str) -> OwnedShards:
        self._ask("store", "renew")
        if incarnation != self.row:
            raise LeaseLost("not this life")
        return OwnedShards(all_shards(self.version), self.version, Sharding(SHARDS), self.commit_number)

    def adopt(self, former: str, incarnation: str) -> OwnedShards:
        self._ask("store", "adopt")
        if former != self.row:
            raise LeaseLost("not that life")
        self.row = incarnation
        self.version += 1
        return OwnedShards(all_shards(self.version), self.version, Sharding(SHARDS), self.commit_number)

    def full(self) -> Snapshot | None:
        self._ask("task_service", "full")
        return self.snapshot

    def delta(self, after: int, wait_seconds: float) -> Snapshot:
        self._ask("task_service", "delta")
        self.world.clock.seconds += wait_seconds
        return self.snapshot.model_copy(update={"full": False, "templates": ()})

    def report(self, batch: TaskReportBatch) -> None:
        self._ask("task_service", "report")
        self.reports.append(batch)


def loops(world: World, cell: Cell, folder: Path) -> tuple[Worker, Worker, Worker]:
    """Heartbeats, specs and reports; the specs on the disk are loaded."""
    heartbeats = HeartbeatLoop(world.container, cell, cell, IncarnationFile(folder), world.clock, SETTINGS)
    specs = SpecLoop(world.container, cell, SnapshotFile(folder), world.clock, SETTINGS)
    manager = TaskManager(world.container, heartbeats, specs, cell, world.clock, SETTINGS)
    specs.load()
    steps = (heartbeats.step, specs.step, manager.report)
    heartbeat, fetch, report = (Worker("loop", step, world.clock, SETTINGS.retry_seconds) for step in steps)
    return heartbeat, fetch, report


def test_tasks_run_on_while_everything_else_is_down(tmp_path: Path) -> None:
    """
    1. A heartbeat is answered and specs come: tasks run.
    2. The Shard Manager and the Task Service go down: the container renews its own lease row, for five minutes.
    3. The Shard Manager comes back: nothing was stopped meanwhile.
    """
    world = World()
    cell = Cell(world)
    heartbeats, specs, _ = loops(world, cell, tmp_path)
    assert heartbeats.step() == SETTINGS.heartbeat_seconds
    specs.step()
    world.settle()
    starts = dict(world.hosts.running())
    assert starts.keys() == {"flights/0", "flights/1"}
    cell.down = {"shard_manager", "task_service"}
    for _ in range(30):
        world.clock.seconds += heartbeats.step()
        assert specs.step() == SETTINGS.retry_seconds
        world.settle()
    assert cell.asked.count("renew") == 30
    cell.down = set()
    assert heartbeats.step() == SETTINGS.heartbeat_seconds
    assert world.hosts.running() == starts


def test_without_shard_manager_and_store_the_lease_runs_out(tmp_path: Path) -> None:
    """
    1. Tasks run; the Shard Manager and the store are down: after 40 s everything stops.
    2. The store comes back: the container takes the place of its own former life, and its tasks start again.
    """
    world = World()
    cell = Cell(world)
    heartbeats, specs, _ = loops(world, cell, tmp_path)
    heartbeats.step()
    specs.step()
    world.settle()
    cell.down = {"shard_manager", "store"}
    for _ in range(30):
        world.clock.seconds += heartbeats.step()
        world.settle()
    assert world.running() == set()
    cell.down = {"shard_manager"}
    heartbeats.step()
    world.settle()
    assert {start.epoch for start in world.hosts.running().values()} == {2}


def test_a_life_that_the_store_calls_lost_stops(tmp_path: Path) -> None:
    """
    1. Tasks run; the Shard Manager is down, and the row names another life.
    2. The tasks stop at once, long before the lease would have run out.
    """
    world = World()
    cell = Cell(world)
    heartbeats, specs, _ = loops(world, cell, tmp_path)
    heartbeats.step()
    specs.step()
    world.settle()
    cell.down, cell.row = {"shard_manager"}, "another"
    heartbeats.step()
    world.settle()
    assert world.running() == set()


def test_a_restarted_task_manager_needs_neither_service(tmp_path: Path) -> None:
    """
    1. A first life runs tasks; then it is gone, and so are the Shard Manager and the Task Service.
    2. The second life has the snapshot from the disk, and takes the first one's place in the store: tasks run, under
       a new epoch.
    3. It may not before the store says so.
    """
    world = World()
    cell = Cell(world)
    heartbeats, specs, _ = loops(world, cell, tmp_path)
    heartbeats.step()
    specs.step()
    cell.down = {"shard_manager", "task_service", "store"}
    second = World(life="second")
    heartbeats, specs, _ = loops(second, cell, tmp_path)
    heartbeats.step()
    second.settle()
    assert second.running() == set()
    cell.down = {"shard_manager", "task_service"}
    heartbeats.step()
    second.settle()
    assert {name: start.epoch for name, start in second.hosts.running().items()} == {"flights/0": 2, "flights/1": 2}


def test_a_life_that_begins_by_the_store_starts_nothing_from_specs_older_than_it(tmp_path: Path) -> None:
    """
    1. A container's lease runs out, and meanwhile its job is committed anew: a stop of it is not waited for by name.
    2. It takes the place of its former life in the store: its specs are of before that, and it starts nothing.
    3. The specs of that commit come: its tasks run.
    """
    world = World()
    cell = Cell(world)
    heartbeats, specs, _ = loops(world, cell, tmp_path)
    heartbeats.step()
    specs.step()
    world.settle()
    world.clock.seconds += 60
    world.settle()
    cell.down, cell.commit_number = {"shard_manager"}, 2
    heartbeats.step()
    world.settle()
    assert world.container.summary().shards.keys() == all_shards(1).keys()
    assert world.running() == set()
    cell.snapshot = cell.snapshot.model_copy(update={"commit_number": 2})
    specs.step()
    world.settle()
    assert world.running() == {"flights/0", "flights/1"}


def test_a_container_that_nobody_knows_does_nothing(tmp_path: Path) -> None:
    """
    1. A first life with an empty disk and no Shard Manager: it has no lease, and asks again soon.
    """
    world = World()
    cell = Cell(world)
    cell.down = {"shard_manager"}
    heartbeats, *_ = loops(world, cell, tmp_path)
    assert heartbeats.step() == SETTINGS.retry_seconds
    assert world.container.summary().lease_seconds_left == 0


def test_specs_are_fetched_in_full_once_a_minute_and_by_deltas_in_between(tmp_path: Path) -> None:
    """
    1. Deltas wait up to 20 s each, so every minute has one full fetch and three deltas.
    """
    world = World()
    cell = Cell(world)
    _, specs, _ = loops(world, cell, tmp_path)
    for _ in range(9):
        specs.step()
    assert cell.asked == ["full", "delta", "delta", "delta"] * 2 + ["full"]


def test_a_store_that_went_back_is_believed_when_a_delta_says_so(tmp_path: Path) -> None:
    """
    1. The catalog is at commit 9; a full fetch from an older cache, at commit 4, changes nothing.
    2. A delta is answered in full at commit 4: the store itself was restored, and that is what runs now.
    """
    world = World()
    cell = Cell(world)
    cell.snapshot = cell.snapshot.model_copy(update={"commit_number": 9})
    _, specs, _ = loops(world, cell, tmp_path)
    specs.step()
    cell.snapshot = Snapshot(full=True, commit_number=4, shard_count=SHARDS, templates=(template("old"),))
    world.clock.seconds += 60
    specs.step()
    assert world.container.summary().commit_number == 9
    cell.delta = lambda after, wait_seconds: cell.snapshot  # type: ignore[method-assign]
    specs.step()
    assert world.container.summary().commit_number == 4


def test_reports_are_of_the_newest_state(tmp_path: Path) -> None:
    """
    1. The Task Service is down: a report fails, and is not kept.
    2. It is back: the next report is what runs by then.
    """
    world = World()
    cell = Cell(world)
    heartbeats, specs, reports = loops(world, cell, tmp_path)
    cell.down = {"task_service"}
    assert reports.step() == SETTINGS.retry_seconds
    cell.down = set()
    heartbeats.step()
    specs.step()
    world.settle()
    reports.step()
    assert [len(batch.tasks) for batch in cell.reports] == [2]


def test_a_load_is_told_until_the_task_service_has_taken_it(tmp_path: Path) -> None:
    """
    1. A host measures a task for a minute; the Task Service is down.
    2. It comes back: the load is told. 3. The next report has nothing new of it. 4. A task that moved away has no load.
    """
    world = World()
    cell = Cell(world)
    heartbeats, specs, reports = loops(world, cell, tmp_path)
    heartbeats.step()
    specs.step()
    world.settle()
    for _ in range(7):
        world.host_of("flights/0").measure({"flights/0": {CPU: 0.5}, "flights/9": {CPU: 9.0}})
        world.clock.seconds += 10
        heartbeats.step()
    cell.down = {"task_service"}
    reports.step()
    cell.down = set()
    reports.step()
    reports.step()
    assert [[task.load for task in batch.tasks] for batch in cell.reports] == [[{CPU: 0.5}, None], [None, None]]
    world.container.drop(world.order(all_shards(cell.version)))
    world.settle()
    assert world.container.report().tasks == ()
