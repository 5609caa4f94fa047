"""What all simulated hosts of a world stand on, and every run of a task on them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

from penstock.spark.channel import Start
from penstock.tasks.redistribution import RedistributionRequest, SealRequest
from penstock.wire.cluster import ShardOrders
from tests.simulation import threads
from tests.simulation.files import Files, Place
from tests.simulation.scheduler import Scheduler
from tests.simulation.story import Story
from tests.simulation.terrain import Terrain

if TYPE_CHECKING:
    from tests.simulation.hosts import SimulatedHost


@dataclass
class Habits:
    """How hosts behave: seconds that things take, and shares that go wrong. `lies`: of stops that are said to be
    done while the query goes on for a while."""

    slow: float = 1.0
    breaks: float = 0.0
    sticks: float = 0.0
    dies: float = 0.0
    lies: float = 0.0


class Instance:
    """One run of a task on a host, from its claim to its end. `is_denied`: its host says that it has ended. `is_held`:
    it takes no more rows. `is_quiet`: since then it has said that its batch is done."""

    def __init__(self, command: Start, host: SimulatedHost, stop: threads.Event) -> None:
        self.spec = command.spec
        self.epoch = command.epoch
        self.commit_number = command.commit_number
        self.host = host
        self.place = Place(command.spec.job, command.spec.generation, command.spec.index)
        self.token = ""
        self.number = -1
        self.is_stuck = False
        self.is_over = False
        self.is_denied = False
        self.is_held = False
        self.is_quiet = False
        self.batches = 0
        self.stop = stop
        self.ended = threads.Event(host.scheduler)

    @property
    def task_id(self) -> str:
        return self.spec.task_id

    def hold(self, is_held: bool) -> None:
        self.is_held, self.is_quiet = is_held, False


class Registry:
    """Every run of a task that has not ended, by job, in order of their beginning."""

    def __init__(self) -> None:
        self._by_job: dict[str, dict[int, Instance]] = defaultdict(dict)
        self._numbers = count()

    def add(self, instance: Instance) -> None:
        instance.number = next(self._numbers)
        self._by_job[instance.spec.job][instance.number] = instance

    def remove(self, instance: Instance) -> None:
        self._by_job[instance.spec.job].pop(instance.number, None)

    def of(self, job: str) -> list[Instance]:
        return list(self._by_job[job].values())

    def all(self) -> Iterator[Instance]:
        for instances in self._by_job.values():
            yield from instances.values()


class Watcher:
    """What is told of instances and host tasks: the checkers."""

    def began(self, instance: Instance) -> None:
        """A task runs."""

    def works(self, host: SimulatedHost, request: RedistributionRequest | SealRequest) -> None:
        """Work on a job's checkpoints begins."""

    def took_checkpoints_over(self, host: SimulatedHost, request: RedistributionRequest) -> None:
        """A redistribution has claimed the checkpoints of its source."""

    def took_over(self) -> None:
        """A Shard Manager reads everything and begins anew."""

    def ordered(self, verb: str, order: ShardOrders) -> None:
        """A Shard Manager sends an order."""


@dataclass
class Ground:
    """What all hosts of a world stand on."""

    scheduler: Scheduler
    story: Story
    files: Files
    habits: Habits
    watcher: Watcher
    terrain: Terrain
    running: Registry = field(default_factory=Registry)
