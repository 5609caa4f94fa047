"""The programs of a cell, put together from the real parts as each service's wiring does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from penstock.control.loop import LeaderLoop, Leadership
from penstock.store.running import STATE_SYNCER
from penstock.wire.cluster import ShardOrders, Snapshot, TaskReportBatch
from penstock.wire.job_client import JobClient
from penstock.wire.redistribution_client import RedistributionClient
from penstock.wire.shard_client import ShardManagerClient
from penstock.wire.task_client import TaskServiceClient
from services.shard_manager.health import Health
from services.shard_manager.heartbeats import Heartbeats as HeartbeatAnswers
from services.shard_manager.loop import ShardManager
from services.shard_manager.orders import OnAnswer, OnTimed, Orders, Verb
from services.shard_manager.settings import ShardManagerSettings
from services.shard_manager.store import LEASE, Cell
from services.shard_manager.upkeep import Upkeep
from services.shard_manager.view import View
from services.shard_manager.wiring import in_turn
from services.state_syncer.budget import Budget
from services.state_syncer.executor import ContainerExecutor
from services.state_syncer.loop import StateSyncer
from services.state_syncer.rollback_keeper import RollbackKeeper
from services.task_manager.container import Container
from services.task_manager.disk import Lives, LivesRecord
from services.task_manager.loop import Heartbeats, Periods, Reports, Specs, TaskManager
from services.task_manager.model import Limits, LoadPeriods
from services.task_manager.snapshot_file import after
from services.task_manager.views import Identity
from services.task_service.api import Specs as SpecAnswers
from services.task_service.cache import TemplateCache
from tests.simulation import servers
from tests.simulation.clock import VirtualClock
from tests.simulation.ground import Ground, Watcher
from tests.simulation.hosts import SimulatedHost, SimulatedHosts
from tests.simulation.network import Network
from tests.simulation.processes import Process
from tests.simulation.store import Database, SyncPort
from tests.support.memory.election import MemoryElection
from tests.support.memory.health import MemoryHealthStore
from tests.support.memory.ownership import MemoryLeaseStore
from tests.support.memory.rollbacks import MemoryBatches, MemoryRollbackStore
from tests.support.memory.shards import MemoryShardStore
from tests.support.memory.specs import MemoryTaskService
from tests.support.memory.store import MemoryStore
from tests.support.memory.sync import MemorySyncStore
from tests.support.memory.templates import MemoryTemplateStore
from tests.support.memory.upkeep import MemoryUpkeepStore

LEADER_LEASE_SECONDS = 15.0


@dataclass(frozen=True)
class Times:
    """Periods that are drawn or shortened; all others are the product's defaults. `gather`: from a wake-up to the State
    Syncer's round, and `gather_shards` to the Shard Manager's; `workers`: containers that the State
    Syncer asks at the same time; `at_once`: jobs that it disrupts at most."""

    periods: Periods = field(default_factory=lambda: Periods(tick=2.0, report=5.0))
    limits: Limits = field(
        default_factory=lambda: Limits(
            host_start_seconds=60.0,
            start_seconds=60.0,
            loads=LoadPeriods(window=20.0, first=5.0, report=10.0),
        )
    )
    set_based_from: int = 8
    gather: float = 0.02
    gather_shards: float = 0.0
    workers: int = 4
    at_once: int = 4


@dataclass
class Surroundings:
    """What programs find: the network, the store, what hosts stand on, and who is where."""

    network: Network
    database: Database
    ground: Ground
    times: Times
    shard_managers: str = ""
    task_services: str = ""
    job_service: str = ""
    lives: count[int] = field(default_factory=lambda: count(1))
    containers: dict[str, Container] = field(default_factory=dict)
    hosts: dict[str, list[SimulatedHost]] = field(default_factory=dict)


Program = Callable[[Surroundings, Process], None]


def shard_manager(around: Surroundings, process: Process) -> None:
    """As `services.shard_manager.wiring`."""
    name, clock, database = process.machine.name, process.machine.clock, around.database
    settings = ShardManagerSettings(gather_seconds=1.0, **around.ground.terrain.placement)
    holder, url = f"{name}:{next(around.lives)}", f"http://{name}"
    election = MemoryElection(database.memory, LEASE, holder, lease_seconds=LEADER_LEASE_SECONDS, url=url)
    leadership = Leadership(LEASE, database.port(election, process), LEADER_LEASE_SECONDS, clock.monotonic)
    store = database.port(WatchedShardStore(database.memory, around.ground.watcher), process)
    view = View()
    health = Health(database.port(MemoryHealthStore(database.memory), process), view, settings, clock)
    orders = WatchedOrders(clock, health.answered, around.ground.watcher)
    manager = ShardManager(store, view, orders, settings, clock, wake=lambda: loop.wake())
    upkeep = Upkeep(database.port(MemoryUpkeepStore(database.memory), process), view, settings, clock)
    loop = LeaderLoop(
        LEASE,
        in_turn(manager.round, health.step, upkeep.step),
        leadership,
        clock,
        period_seconds=settings.shard_manager_round_seconds,
        renew_seconds=LEADER_LEASE_SECONDS / 3,
        gather_seconds=around.times.gather_shards,
    )
    answers = HeartbeatAnswers(
        store,
        view,
        leadership,
        clock,
        lease_seconds=settings.container_lease_seconds,
        drain_grace_seconds=settings.drain_grace_seconds,
        wake=loop.wake,
    )
    around.network.listen(name, process, servers.of_shard_manager(answers))
    loop.start()


def state_syncer(around: Surroundings, process: Process) -> None:
    """As `services.state_syncer.wiring`, without savepoints and the removal of old generations."""
    clock, database = process.machine.clock, around.database
    times, client = around.times, RedistributionClient()
    executor = ContainerExecutor(client, clock.monotonic, workers=times.workers, lost_after_seconds=30.0)
    syncer = StateSyncer(
        SyncPort(database, MemorySyncStore(database.memory), process),
        clock.now,
        await_seconds=1.0,
        set_based_from=times.set_based_from,
        executor=executor,
        budget=Budget(0.5, times.at_once),
        initialize_count=max(32, times.workers),
    )
    rollback_store = database.port(MemoryRollbackStore(database.memory), process)
    keeper = RollbackKeeper(rollback_store, JobClient(around.job_service), await_seconds=1.0)

    def rounds(leader_epoch: int) -> None:
        syncer.round(leader_epoch)
        keeper.round(leader_epoch)

    holder = f"{process.machine.name}:{next(around.lives)}"
    election = MemoryElection(database.memory, STATE_SYNCER, holder, lease_seconds=LEADER_LEASE_SECONDS)
    leadership = Leadership(STATE_SYNCER, database.port(election, process), LEADER_LEASE_SECONDS, clock.monotonic)
    loop = LeaderLoop(
        STATE_SYNCER,
        rounds,
        leadership,
        clock,
        period_seconds=30.0,
        renew_seconds=LEADER_LEASE_SECONDS / 3,
        gather_seconds=times.gather,
    )
    syncer.wake_in = keeper.wake_in = loop.wake_in
    executor.on_news = loop.wake
    database.listen(process, loop.wake)
    loop.start()


def job_service(around: Surroundings, process: Process) -> None:
    """As `services.job_service`, for batches of layers; a write notifies."""
    database = around.database
    layers = database.port(MemoryBatches(database.memory), process)

    def batch(writes: Any) -> Any:
        results = layers.batch(writes)
        database.news.notify_all()
        return results

    around.network.listen(process.machine.name, process, servers.of_job_service(batch))


def task_service(around: Surroundings, process: Process) -> None:
    """As `services.task_service.wiring`."""
    database = around.database
    waiters: Any = servers.Waiters(around.ground.scheduler)
    store = database.port(MemoryTemplateStore(database.memory), process)
    cache = TemplateCache(store, process.machine.clock, waiters, expiry_seconds=90.0, keep_samples_days=14)
    specs = SpecAnswers(cache, waiters, longest_wait_seconds=60.0)
    reports = database.port(MemoryTaskService(database.memory), process)

    def save(batch: TaskReportBatch) -> None:
        reports.report(batch)
        if database.memory.plans:
            database.news.notify_all()

    around.network.listen(process.machine.name, process, servers.of_task_service(specs, save))
    database.listen(process, cache.wake)
    cache.start()


def task_manager(around: Surroundings, process: Process) -> None:
    """As `services.task_manager.__main__`; a former life's hosts end first."""
    machine, database, times = process.machine, around.database, around.times
    name, clock = machine.name, machine.clock
    hosts = around.hosts.setdefault(name, [])
    while any(not host.process.is_dead for host in hosts):
        for host in hosts:
            host.kill()
        around.ground.scheduler.wait(0.1)
    numbers, life = count(1), next(around.lives)
    terrain = around.ground.terrain
    identity = Identity(name, f"http://{name}", terrain.region(name), terrain.capacity(name), terrain.labels(name))
    container = Container(
        identity,
        times.limits,
        SimulatedHosts(around.ground, process, hosts),
        clock,
        lambda: f"{name}-{life}.{next(numbers)}",
    )
    around.containers[name] = container
    authority = ShardManagerClient(around.shard_managers)
    store = database.port(MemoryLeaseStore(database.memory, name), process)
    tasks = TaskServiceClient(around.task_services)
    manager = TaskManager(
        container,
        Heartbeats(container, authority, store, DiskLives(machine.disk), clock, times.periods),
        Specs(container, tasks, DiskSnapshot(machine.disk), clock, times.periods),
        Reports(container, tasks, clock, times.periods),
        times.periods,
    )
    around.network.listen(name, process, servers.of_task_manager(container))
    manager.start()


class WatchedShardStore(MemoryShardStore):
    """Says when a leader takes over."""

    def __init__(self, store: MemoryStore, watcher: Watcher) -> None:
        super().__init__(store)
        self._watcher = watcher

    def take_over(self, leader_epoch: int) -> Cell:
        cell = super().take_over(leader_epoch)
        self._watcher.took_over()
        return cell


class WatchedOrders(Orders):
    """Says what is sent."""

    def __init__(self, clock: VirtualClock, on_timed: OnTimed, watcher: Watcher) -> None:
        super().__init__(clock, on_timed)
        self._watcher = watcher

    def send(self, verb: Verb, url: str, order: ShardOrders, on_answer: OnAnswer) -> None:
        self._watcher.ordered(verb, order)
        super().send(verb, url, order, on_answer)


class DiskSnapshot:
    """As `services.task_manager.snapshot_file.SnapshotFile`, on a simulated disk: written out when it is read."""

    def __init__(self, disk: dict[str, Any]) -> None:
        self._disk = disk
        self._journal: list[Snapshot] | None = None

    def load(self) -> Snapshot | None:
        held = [Snapshot.model_validate_json(each.model_dump_json()) for each in self._disk.get("snapshot", ())]
        return after(held[0], held[1:]) if held else None

    def save(self, snapshot: Snapshot) -> None:
        self._journal = self._disk["snapshot"] = [snapshot]

    def append(self, delta: Snapshot) -> bool:
        if self._journal is not None:
            self._journal.append(delta)
        return self._journal is not None


class DiskLives(Lives):
    """`services.task_manager.disk.Lives` on a simulated disk."""

    def __init__(self, disk: dict[str, Any]) -> None:
        self._disk = disk
        self._record = LivesRecord.model_validate_json(disk.get("lives", "{}"))
        self._formers = tuple(name for name in (self._record.asked, self._record.granted) if name)

    def _store(self, record: LivesRecord) -> None:
        self._record = record
        self._disk["lives"] = record.model_dump_json()
