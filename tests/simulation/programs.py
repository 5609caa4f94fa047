"""The programs of a cell, put together from the real parts as each service's wiring does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import count
from random import Random
from typing import Any

from penstock.control.loop import LeaderLoop, Leadership
from penstock.identity.roles import Caller, Role
from penstock.model.reports import TaskReportBatch, TaskReportChanges
from penstock.store.running import STATE_SYNCER
from penstock.tasks.spec import TaskTemplate
from penstock.wire.cluster import Identity, LeaseAnswer, LeaseRequest, ShardOrders, Snapshot
from penstock.wire.host_task_client import HostTaskClient
from penstock.wire.job_client import JobClient
from penstock.wire.shard_client import ShardManagerClient
from penstock.wire.task_client import TaskServiceClient
from services.shard_manager.health.reconciler import HealthReconciler
from services.shard_manager.leader.heartbeats import Heartbeats as HeartbeatAnswers
from services.shard_manager.leader.housekeeping import Housekeeping
from services.shard_manager.leader.loop import ShardManager
from services.shard_manager.leader.orders import OnAnswer, OnTimed, Orders, Verb
from services.shard_manager.leader.view import View
from services.shard_manager.settings import ShardManagerSettings
from services.shard_manager.store.port import LEASE, Cell
from services.shard_manager.wiring import in_turn
from services.state_syncer.decide.budget import Budget
from services.state_syncer.decide.waves import RolloutPolicy
from services.state_syncer.host_tasks.dispatcher import Dispatcher, WantedHostTasks
from services.state_syncer.rollback.reconciler import RollbackReconciler
from services.state_syncer.round.loop import StateSyncer
from services.task_manager.container import Container
from services.task_manager.loops.heartbeats import HeartbeatLoop
from services.task_manager.loops.specs import SpecLoop
from services.task_manager.loops.task_manager import TaskManager
from services.task_manager.membership.relayed_lease import RelayedLease, longest_call
from services.task_manager.settings import TaskManagerSettings
from services.task_manager.specs.files import IncarnationFile, Incarnations
from services.task_manager.specs.spec_cache import SpecCache
from services.task_service.api import SpecAnswers
from services.task_service.cache import TemplateCache
from tests.simulation import servers
from tests.simulation.clock import VirtualClock
from tests.simulation.ground import Ground, Watcher
from tests.simulation.hosts import SimulatedHost, SimulatedHosts
from tests.simulation.network import Known, Network
from tests.simulation.processes import Machine, Process
from tests.simulation.store import Database, SyncPort
from tests.support.memory.election import MemoryElection
from tests.support.memory.health import MemoryHealthStore
from tests.support.memory.housekeeping import MemoryHousekeepingStore
from tests.support.memory.ownership import MemoryLeaseStore, renewed
from tests.support.memory.rollbacks import MemoryBatches, MemoryRollbackStore
from tests.support.memory.shards import MemoryShardStore
from tests.support.memory.specs import MemoryTaskService, MemoryTemplateStore
from tests.support.memory.store import MemoryStore
from tests.support.memory.sync import MemorySyncStore

LEADER_LEASE_SECONDS = 15.0
UNHEALTHY_SECONDS = 60.0
"""Half of the product's: many faults last longer."""


@dataclass(frozen=True)
class Times:
    """Periods that are drawn or shortened; all others are the product's defaults. `gather`: from a wake-up to the State
    Syncer's round, and `gather_shards` to the Shard Manager's; `workers`: containers that the State
    Syncer asks at the same time; `at_once`: jobs that it disrupts at most."""

    task_managers: TaskManagerSettings = field(
        default_factory=lambda: TaskManagerSettings(
            reconcile_seconds=2.0,
            report_seconds=5.0,
            # Simulated hosts speak only when there is something to tell.
            host_silent_seconds=1e6,
            host_hung_seconds=1e6,
            host_start_seconds=60.0,
            start_seconds=60.0,
            load_window_seconds=20.0,
            load_first_seconds=5.0,
            load_report_seconds=10.0,
        )
    )
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

    @cached_property
    def shard_manager_settings(self) -> ShardManagerSettings:
        """Read once: that takes milliseconds, and Shard Managers begin anew all the time."""
        return ShardManagerSettings(gather_seconds=1.0, **self.ground.terrain.placement)


Program = Callable[[Surroundings, Process], None]


def shard_manager(around: Surroundings, process: Process) -> None:
    """As `services.shard_manager.wiring`."""
    name, clock, database = process.machine.name, process.machine.clock, around.database
    settings = around.shard_manager_settings
    holder, url = f"{name}:{next(around.lives)}", f"http://{name}"
    election = MemoryElection(database.memory, LEASE, holder, lease_seconds=LEADER_LEASE_SECONDS, url=url)
    leadership = Leadership(LEASE, database.port(election, process), LEADER_LEASE_SECONDS, clock.monotonic)
    store = database.port(WatchedShardStore(database.memory, around.ground.watcher), process)
    view = View(add_limit_seconds=settings.add_limit_seconds)
    health = HealthReconciler(database.port(MemoryHealthStore(database.memory), process), view, settings, clock)
    orders = WatchedOrders(clock, health.order_answered, around.ground.watcher, Known(Caller(Role.SHARD_MANAGER)))
    manager = ShardManager(store, view, orders, settings, clock, wake=lambda: loop.wake())
    housekeeping = Housekeeping(database.port(MemoryHousekeepingStore(database.memory), process), view, settings, clock)
    loop = LeaderLoop(
        LEASE,
        in_turn(manager.round, health.step, housekeeping.step),
        leadership,
        clock,
        period_seconds=settings.shard_manager_round_seconds,
        renew_seconds=LEADER_LEASE_SECONDS / 3,
        gather_seconds=around.times.gather_shards,
    )
    answers = HeartbeatAnswers(store, view, leadership, settings, clock, wake=loop.wake)
    around.network.listen(name, process, servers.of_shard_manager(answers))
    loop.start()


def state_syncer(around: Surroundings, process: Process) -> None:
    """As `services.state_syncer.wiring`, without savepoints and the removal of old generations."""
    clock, database = process.machine.clock, around.database
    times, client = around.times, HostTaskClient(Known(Caller(Role.STATE_SYNCER)))
    dispatcher = Dispatcher(client, clock.monotonic, workers=times.workers, lost_after_seconds=30.0)
    syncer = StateSyncer(
        SyncPort(database, MemorySyncStore(database.memory), process),
        clock.now,
        WantedHostTasks(dispatcher),
        budget=Budget(0.5, times.at_once, outputs=max(32, times.workers)),
        rollouts=RolloutPolicy(unhealthy_seconds=UNHEALTHY_SECONDS),
    )
    rollback_store = database.port(MemoryRollbackStore(database.memory), process)
    keeper = RollbackReconciler(rollback_store, JobClient(around.job_service), clock.monotonic)

    def rounds(leader_epoch: int) -> None:
        for part in (syncer, keeper):
            if part.round(leader_epoch):
                loop.wake_in(1.0)

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
    dispatcher.on_news = loop.wake
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
    cache = TemplateCache(
        store,
        process.machine.clock,
        waiters,
        expiry_seconds=90.0,
        held_back_alert_seconds=300.0,
    )
    specs = SpecAnswers(cache, waiters, longest_wait_seconds=60.0)
    reports = database.port(MemoryTaskService(database.memory), process)

    def save(batch: TaskReportBatch, number: int) -> None:
        reports.report(batch, number)
        if database.memory.plans:
            database.news.notify_all()

    def save_changes(changes: TaskReportChanges) -> bool:
        stored: bool = reports.report_changes(changes)
        if database.memory.plans:
            database.news.notify_all()
        return stored

    def renew_lease(request: LeaseRequest) -> LeaseAnswer:
        return renewed(database.port(MemoryLeaseStore(database.memory, request.container), process), request)

    handler = servers.of_task_service(specs, save, save_changes, renew_lease)
    around.network.listen(process.machine.name, process, handler)
    database.listen(process, cache.wake)
    cache.start()


def task_manager(around: Surroundings, process: Process) -> None:
    """As `services.task_manager.__main__`; a former life's hosts end first."""
    machine, database, settings = process.machine, around.database, around.times.task_managers
    name, clock = machine.name, machine.clock
    hosts = around.hosts.setdefault(name, [])
    while any(not host.process.is_dead for host in hosts):
        for host in hosts:
            host.kill()
        around.ground.scheduler.wait(0.1)
    numbers, life = count(1), next(around.lives)
    terrain = around.ground.terrain
    identity = Identity(
        container=name,
        url=f"http://{name}",
        region=terrain.region(name),
        capacity=terrain.capacity(name),
        labels=terrain.labels(name),
    )
    container = Container(
        identity,
        settings,
        SimulatedHosts(around.ground, process, hosts),
        clock,
        lambda: f"{name}-{life}.{next(numbers)}",
    )
    around.containers[name] = container
    known = Known(Caller(Role.TASK_MANAGER, name))

    def seconds_left() -> float:
        return container.summary().lease_seconds_left

    longest, now = partial(longest_call, lease_seconds=settings.container_lease_seconds), clock.monotonic
    authority = ShardManagerClient(
        around.shard_managers, identity=known, limit_seconds=lambda: longest(seconds_left(), calls=2), now=now
    )
    renewals = TaskServiceClient(
        around.task_services,
        timeout_seconds=settings.heartbeat_timeout_seconds,
        identity=known,
        limit_seconds=lambda: longest(seconds_left(), calls=1),
        now=now,
    )
    store = database.port(MemoryLeaseStore(database.memory, name), process)
    tasks, random = TaskServiceClient(around.task_services, identity=known), Random(f"{name} {life}")
    leases = RelayedLease(
        name,
        renewals,
        store,
        seconds_left,
        clock,
        random,
        spread_seconds=settings.lease_spread_seconds,
    )
    manager = TaskManager(
        container,
        HeartbeatLoop(container, authority, leases, DiskIncarnations(machine.disk), clock, settings),
        SpecLoop(container, tasks, DiskSnapshot(machine, around.ground.watcher), clock, settings, random),
        tasks,
        clock,
        settings,
        random,
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

    def __init__(self, clock: VirtualClock, on_timed: OnTimed, watcher: Watcher, identity: Known) -> None:
        super().__init__(clock, on_timed, identity=identity)
        self._watcher = watcher

    def send(self, verb: Verb, url: str, order: ShardOrders, on_answer: OnAnswer) -> None:
        self._watcher.ordered(verb, order)
        super().send(verb, url, order, on_answer)


class DiskSnapshot:
    """As `services.task_manager.specs.snapshot_file.SnapshotFile`, on a simulated disk: written out when it is read."""

    def __init__(self, machine: Machine, watcher: Watcher) -> None:
        self._disk, self._name, self._watcher = machine.disk, machine.name, watcher

    def load(self) -> Snapshot | None:
        specs: SpecCache | None = self._disk.get("specs")
        if specs is None:
            return None
        texts = [job.template.model_dump_json() for job in specs.jobs.values()]
        return Snapshot(
            full=True,
            commit_number=specs.commit_number,
            shard_count=specs.sharding.count,
            store=specs.store,
            templates=tuple(map(TaskTemplate.model_validate_json, texts)),
            row_digests=tuple(job.digest for job in specs.jobs.values()),
        )

    def save(self, specs: SpecCache) -> None:
        known: SpecCache | None = self._disk.get("specs")
        self._watcher.took_specs(self._name, 0 if known is None else known.commit_number, specs.commit_number)
        self._disk["specs"] = specs


class DiskIncarnations(IncarnationFile):
    """`services.task_manager.specs.files.IncarnationFile` on a simulated disk."""

    def __init__(self, disk: dict[str, Any]) -> None:
        self._disk = disk
        self._stored = Incarnations.model_validate_json(disk.get("lives", "{}"))
        self._former = self._known()

    def _store(self, incarnations: Incarnations) -> None:
        self._stored = incarnations
        self._disk["lives"] = incarnations.model_dump_json()
