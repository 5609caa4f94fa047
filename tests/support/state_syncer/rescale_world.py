"""A cell in memory with its containers as they are, not as they say: what a model test of rescales checks against.

Containers apply commits, start and stop tasks, and report, each when the test says so. A container that is lost has
stopped its tasks before, by its lease; what it redistributes for the State Syncer may go on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, NamedTuple

import orjson

from penstock.model.reports import TaskProgress, TaskReport, TaskState
from penstock.store.running import STATE_SYNCER, UNASKED_STOP
from penstock.tasks.host_request import HostRequest
from penstock.tasks.ownership import Member, Owner
from penstock.tasks.redistribution import (
    CopyReport,
    CopyRequest,
    RedistributionReport,
    RedistributionRequest,
    SealRequest,
)
from penstock.tasks.savepoint import SavepointRemoval, SavepointReport, SavepointRequest
from services.state_syncer.host_tasks.dispatcher import WantedHostTasks
from services.state_syncer.host_tasks.outcomes import Attempt, AttemptKey, Done, Failed, Lost, Outcome, Unanswered
from services.state_syncer.round.loop import StateSyncer
from services.state_syncer.savepoints.reconciler import SavepointReconciler
from services.state_syncer.savepoints.store import Decided
from services.state_syncer.store.port import Batch
from tests.support.memory.savepoints import MemorySavepointStore
from tests.support.memory.store import LeaseEntry, MemoryStore, ReportEntry, RunningEntry
from tests.support.memory.sync import MemorySyncStore
from tests.support.state_syncer.cell import Killed
from tests.support.store.jobs import make_config, make_layer

NAMES = ("a", "b", "c")
SAVEPOINTS_KEPT = 2
SHARDS, MOST_TASKS = 1024, 4
BEHIND_MS, LEVEL_MS = 4_000, 5_000
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class Tasks(NamedTuple):
    """The tasks of a job that run, all in one container. `level_ms`: of the order by which they are quiet."""

    job: str
    generation: int
    count: int = 1
    is_quiet: bool = False
    level_ms: int | None = None


@dataclass
class Container:
    """`view` is the running table as it was when the container last looked."""

    name: str
    life: int = 1
    live: bool = True
    answers: bool = True
    applied: int = 0
    view: dict[str, RunningEntry] = field(default_factory=dict)
    tasks: set[Tasks] = field(default_factory=set)
    works: dict[tuple[str, int, str], Outcome] = field(default_factory=dict)


class MortalStore(MemorySyncStore):
    """Dies once, before or after its next write."""

    dies: str | None = None

    def write(self, batch: Batch, leader_epoch: int) -> int | None:
        if self.dies == "before":
            raise Killed
        number = super().write(batch, leader_epoch)
        if self.dies == "after":
            raise Killed
        return number


class MortalSavepoints(MemorySavepointStore):
    """As `MortalStore`, for what the reconciler of savepoints writes."""

    dies: str | None = None

    def write(self, decided: Sequence[Decided], leader_epoch: int) -> None:
        if self.dies == "before":
            raise Killed
        super().write(decided, leader_epoch)
        if self.dies == "after":
            raise Killed


class World:
    """The store, the containers, and the syncers that lead or think that they do."""

    def __init__(self) -> None:
        self.now = BEGIN
        self.memory = MemoryStore(lambda: (self.now - BEGIN).total_seconds(), SHARDS)
        self.containers = {name: Container(name) for name in NAMES}
        for container in self.containers.values():
            self._register(container)
        self.home: dict[str, str] = defaultdict(lambda: "a")
        self.memory.owners = dict.fromkeys(range(SHARDS), Owner("a", 1))
        self.needs: dict[str, int] = defaultdict(int)
        self.expected: dict[str, list[Any]] = defaultdict(list)
        self.attempts: dict[tuple[str, int], set[str]] = defaultdict(set)
        self.sealed: set[tuple[str, int]] = set()
        self.complaints: list[str] = []
        self.requests: dict[tuple[str, tuple[str, int, str]], HostRequest] = {}
        self.written: set[tuple[str, int]] = set()
        self.saved: set[tuple[str, str]] = set()
        self.lagging: set[str] = set()
        self.restoring: dict[tuple[str, int], int] = {}
        self.syncers: list[Syncer] = []
        self._epochs = count(1)
        self.elect()

    def expect(self, job: str, config: Mapping[str, Any]) -> None:
        """Somebody asks for a configuration."""
        self.memory.write_layer(job, "base", make_layer(**config))
        self.expected[job].append(make_config(**config))

    def is_to_run(self, job: str) -> bool:
        """Whether tasks of the job run when no plan keeps them from it."""
        return bool(orjson.loads(self.memory.running[job].row.config)["desired_state"] == "running")

    # ---- leaders

    @property
    def leader(self) -> Syncer:
        """The newest; only its writes are taken."""
        return self.syncers[-1]

    def elect(self) -> None:
        """Another leader, with nothing but the store; the one before may not know of it."""
        epoch = next(self._epochs)
        self.memory.leases[STATE_SYNCER] = LeaseEntry(f"syncer-{epoch}", epoch, float("inf"))
        self.syncers.append(Syncer(self, epoch))

    # ---- containers

    def apply(self, name: str) -> None:
        """The container fetches all that is committed."""
        container = self.containers[name]
        container.view = dict(self.memory.running)
        container.applied = self.memory.counters["running_commit"]

    def settle(self, name: str) -> None:
        """The container runs what its view asks for, of the jobs that are at home there."""
        container = self.containers[name]
        if container.live:
            container.tasks = {
                Tasks(job, entry.row.generation, _count(entry), entry.row.quiescing, entry.row.level_ms)
                for job, entry in container.view.items()
                if self.home[job] == name and _serves(entry) and container.applied >= self.needs[job]
            }

    def report(self, name: str) -> None:
        """The container says what it runs, and after which commit."""
        container = self.containers[name]
        if container.live:
            life, at = f"life-{container.life}", self.memory.now()
            self.memory.reports[name] = ReportEntry(life, container.applied, reported_at=at)
            tasks = sorted(container.tasks, key=lambda each: each.job)
            self.memory.tasks[name] = tuple(self._report(each, index) for each in tasks for index in range(each.count))

    def _report(self, tasks: Tasks, index: int) -> TaskReport:
        """Where tasks lag, all but the first are behind until they have read on."""
        is_behind = index > 0 and tasks.job in self.lagging and not tasks.level_ms
        watermark_ms = (BEHIND_MS if is_behind else LEVEL_MS) if tasks.is_quiet else None
        return TaskReport(
            job=tasks.job,
            index=index,
            state=TaskState.RUNNING,
            revision=1,
            generation=tasks.generation,
            restarts=0,
            epoch=1,
            progress=TaskProgress(quiesced=tasks.is_quiet, level_ms=tasks.level_ms, watermark_ms=watermark_ms),
        )

    def lose(self, name: str) -> None:
        """The container's lease ran out: its tasks have stopped. It is failed over, and its jobs move."""
        container = self.containers[name]
        others = [other.name for other in self.containers.values() if other.live and other is not container]
        if not container.live or not others:
            return
        container.tasks.clear()
        container.live = False
        self.memory.members[name] = self.memory.members[name]._replace(live=False)
        for job, home in list(self.home.items()):
            if home == name:
                self._own(job, others[0])
        self.memory.owners = {
            shard: Owner(others[0], owner.epoch) if owner.container == name else owner
            for shard, owner in self.memory.owners.items()
        }

    def come_back(self, name: str) -> None:
        """Another life of a lost container: empty, and without memory of what it was asked."""
        container = self.containers[name]
        if not container.live:
            fresh = Container(name, container.life + 1)
            fresh.view, fresh.applied = container.view, container.applied
            self.containers[name] = fresh
            self._register(fresh)

    def move(self, job: str, name: str) -> None:
        """The job's shards move: dropped, then added."""
        if self.containers[name].live:
            for container in self.containers.values():
                container.tasks = {task for task in container.tasks if task.job != job}
            self._own(job, name)

    def _own(self, job: str, name: str) -> None:
        """The job's shards have a new owner, which is told the newest stop that did not wait for all containers."""
        self.home[job] = name
        self.needs[job] = self.memory.counters[UNASKED_STOP]
        for index in range(MOST_TASKS):
            shard = self.memory.facts.sharding.shard_of(f"{job}/{index}")
            self.memory.owners[shard] = Owner(name, 1)

    def _register(self, container: Container) -> None:
        name, life = container.name, f"life-{container.life}"
        self.memory.members[name] = Member(name, life, f"http://{name}", "r", 1.0, 1, 1)

    # ---- redistributions

    def asked(self, name: str, ask: Attempt) -> None:
        """A container is asked: what must hold when its work begins is checked here."""
        work = (ask.key.job, int(ask.key.number or 0), ask.key.kind)
        if work in self.containers[name].works:
            return
        self.containers[name].works[work] = Unanswered()
        self.requests[name, work] = ask.request
        job, request = ask.key.job, ask.request
        if isinstance(request, SavepointRequest):
            return
        if isinstance(request, CopyRequest):
            if (job, request.target.generation) in self.written:
                self.complaints.append(
                    f"{name} copies state into generation {request.target.generation}, which is written"
                )
            return
        if isinstance(request, SavepointRemoval):
            self._removal_asked(request)
            return
        needs_none = isinstance(request, RedistributionRequest | SealRequest)
        if needs_none and any(task.job == job for container in self.containers.values() for task in container.tasks):
            self.complaints.append(f"{name} begins {work} while tasks of {job} run")
        if isinstance(request, RedistributionRequest):
            self.attempts[job, request.target.generation].add(name)
            self._restore_asked(request)

    def _removal_asked(self, request: SavepointRemoval) -> None:
        name = (request.job, request.name)
        if any((row.savepoint.job, row.savepoint.name) == name for row in self.memory.restores.values()):
            self.complaints.append(f"{name} is to go while a restore waits for it")

    def _restore_asked(self, request: RedistributionRequest) -> None:
        savepoint = request.source.savepoint
        if savepoint is None:
            return
        if (savepoint.job, savepoint.name) not in self.saved:
            self.complaints.append(f"{request.job} is restored from {savepoint}, which is not there")
        number = self.memory.plans[request.job]["restore"]["number"]
        self.restoring[request.job, request.target.generation] = number

    def finish(self, name: str, outcome: Outcome) -> None:
        """All that the container works on comes to an end."""
        works = self.containers[name].works
        for work in [work for work, found in works.items() if isinstance(found, Unanswered)]:
            works[work] = self._done(self.requests[name, work]) if isinstance(outcome, Done) else outcome

    def _done(self, request: HostRequest) -> Done:
        """What a work leaves, and what is said of it."""
        match request:
            case RedistributionRequest():
                self.written.add((request.job, request.target.generation))
                return DONE
            case CopyRequest():
                return Done(CopyReport())
            case SavepointRequest():
                self.saved.add((request.job, request.name))
                return Done(SavepointReport(tasks=(), bytes=0))
            case SavepointRemoval():
                self.saved.discard((request.job, request.name))
        return Done()

    def forget_failures(self) -> None:
        """A failure is told once; asked again it is tried again."""
        for container in self.containers.values():
            container.works = {work: found for work, found in container.works.items() if not isinstance(found, Failed)}


class Syncer:
    """A State Syncer's process."""

    def __init__(self, world: World, epoch: int) -> None:
        self.epoch = epoch
        self.world = world
        self.host_tasks = WorldHostTasks(world)
        self.store = MortalStore(world.memory)
        self.syncer = StateSyncer(self.store, lambda: world.now, self.host_tasks)
        self.savepoints = MortalSavepoints(world.memory)
        self.reconciler = SavepointReconciler(self.savepoints, WorldHostTasks(world), keep_count=SAVEPOINTS_KEPT)

    def round(self) -> None:
        """Raises Fenced."""
        self.syncer.round(self.epoch)
        self.reconciler.round(self.epoch)


class WorldHostTasks(WantedHostTasks):
    """Asks the world's containers; what it knows is gone with its process."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._outcomes: dict[AttemptKey, Outcome] = {}

    def outcome(self, key: AttemptKey) -> Outcome:
        return self._outcomes.get(key, Unanswered())

    def want(self, attempts: Iterable[Attempt], leader_epoch: int) -> None:
        before, self._outcomes = self._outcomes, {}
        for ask in attempts:
            known = before.get(ask.key, Unanswered())
            self._outcomes[ask.key] = self._answer(ask) if isinstance(known, Unanswered) else known

    def _answer(self, ask: Attempt) -> Outcome:
        if isinstance(ask.request, Failed):
            return ask.request
        container = self._world.containers[str(ask.key.container)]
        if not container.answers:
            return Lost("no answer")
        self._world.asked(container.name, ask)
        found = container.works[ask.key.job, int(ask.key.number or 0), ask.key.kind]
        if isinstance(found, Done) and isinstance(ask.request, SealRequest):
            self._world.sealed.add((ask.key.job, ask.request.layout.generation))
        return found


DONE = Done(RedistributionReport())


def soon(now: datetime) -> datetime:
    """A round later."""
    return now + timedelta(seconds=1)


def _serves(entry: RunningEntry) -> bool:
    return not entry.row.stopping and b'"desired_state":"running"' in entry.row.config


def _count(entry: RunningEntry) -> int:
    return int(entry.config["task_count"])
