"""What all simulated hosts of a world stand on, and every run of a task on them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

from penstock.model.reports import TaskProgress
from penstock.spark.channel import Start
from penstock.tasks.redistribution import RedistributionRequest, SealRequest
from penstock.tasks.spec import TaskSpec
from penstock.wire.cluster import ShardOrders
from tests.simulation import threads
from tests.simulation.files import Files, Place
from tests.simulation.scheduler import Scheduler
from tests.simulation.story import Story
from tests.simulation.terrain import Terrain

if TYPE_CHECKING:
    from tests.simulation.hosts import SimulatedHost


FRESH_SECONDS = 10.0


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
    it takes no more rows, once it has read up to `level_ms` if that is above 0. `is_quiet`: since then it has said
    that its batch is done. `took_all_at`: when its newest batch began, which took all that was there."""

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
        self.level_ms: int | None = None
        self.ordered_at = 0.0
        self.took_all_at: float | None = None
        self.left_rows = True
        self.batches = 0
        self.stop = stop
        self.ended = threads.Event(host.scheduler)

    @property
    def task_id(self) -> str:
        return self.spec.task_id

    def follow(self, spec: TaskSpec, now: float) -> None:
        self.is_held, self.level_ms, self.is_quiet, self.ordered_at = spec.quiescing, spec.level_ms, False, now

    def planned(self, at: float, takes_all: bool) -> None:
        """A batch began then, which has ended well."""
        self.took_all_at, self.left_rows = at if takes_all else self.took_all_at, not takes_all

    def quiet_progress(self, watermark_ms: int) -> TaskProgress:
        """What its host says of it once it gets no more rows."""
        answer: dict[str, Any] = {"batch_id": self.batches, "input_rows": 0, "quiesced": True}
        if self.level_ms is not None:
            answer |= {"level_ms": self.level_ms, "watermark_ms": watermark_ms, "caught_up": self.is_caught_up()}
        return TaskProgress.model_validate(answer)

    def is_caught_up(self) -> bool:
        """As `QuiesceOrder`."""
        if self.took_all_at is None or (not self.level_ms and self.left_rows):
            return False
        return self.took_all_at >= self.ordered_at - (0.0 if self.level_ms else FRESH_SECONDS)

    def gets_no_rows(self, is_at_cuts: bool) -> bool:
        return self.is_held and (not self.level_ms or is_at_cuts)


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

    def took_specs(self, container: str, before: int, after: int) -> None:
        """A Task Manager takes the specs of commit `after`; it had those of `before`."""


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
