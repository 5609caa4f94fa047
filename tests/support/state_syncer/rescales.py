"""Containers that do host tasks when the test says so, as the parts of a State Syncer see them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from penstock.tasks.redistribution import RedistributionReport
from services.state_syncer.decide.progress import Step
from services.state_syncer.host_tasks.dispatcher import HostTasks
from services.state_syncer.host_tasks.outcomes import Attempt, AttemptKey, Done, Failed, Lost, Outcome, Unanswered
from services.state_syncer.store.port import SyncStore
from tests.support.state_syncer.cell import Cell
from tests.support.store.jobs import make_layer, write_layer

Script = Callable[[AttemptKey], Outcome]


def everything_works(key: AttemptKey) -> Outcome:
    return Done(RedistributionReport()) if key.kind == Step.REDISTRIBUTE else Done()


def fails_at(step: Step, error: str = "disk full") -> Script:
    """Every attempt at a step fails."""
    return lambda key: Failed(error) if key.kind == step else everything_works(key)


def silent(container: str) -> Script:
    """A container that never answers; the others work."""
    return lambda key: Lost("no answer") if key.container == container else everything_works(key)


class Containers:
    """Asked by any number of syncers, one after another: what they know is theirs and outlives those.

    `asked` has every attempt once, in order, that was asked while `works` answered for it.
    """

    def __init__(self, works: Script = everything_works) -> None:
        self.works = works
        self.asked: list[Attempt] = []

    def generations(self) -> list[int | None]:
        """The generations that were to be written, in order."""
        return [ask.key.number for ask in self.asked if ask.key.kind == Step.REDISTRIBUTE]


class MemoryHostTasks(HostTasks):
    """The host tasks of one part of a syncer: they are forgotten when its process ends."""

    def __init__(self, containers: Containers) -> None:
        self._containers = containers
        self._outcomes: dict[AttemptKey, Outcome] = {}

    def outcome(self, key: AttemptKey) -> Outcome:
        return self._outcomes.get(key, Unanswered())

    def want(self, attempts: Iterable[Attempt], leader_epoch: int) -> None:
        before, self._outcomes = self._outcomes, {}
        for attempt in attempts:
            if isinstance(attempt.request, Failed):
                self._outcomes[attempt.key] = attempt.request
                continue
            if all(attempt.key != known.key for known in self._containers.asked):
                self._containers.asked.append(attempt)
            self._outcomes[attempt.key] = before.get(attempt.key) or self._containers.works(attempt.key)


class RescaleCell(Cell):
    """A cell with two containers, a and b, that report what a commit asks for."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.containers = Containers()
        for name in ("a", "b"):
            self.container(name)
        self.restart()

    def restart(self, store: Any = None) -> None:
        """Another syncer process: it knows what the store says and nothing else."""
        self.host_tasks = MemoryHostTasks(self.containers)
        self.syncer = self.make_syncer(store or SyncStore(self.engine))

    def applied(self, *names: str) -> None:
        """These containers have applied all commits: tasks that are not served are gone."""
        number = self.rows("SELECT value FROM counters WHERE name = 'running_commit'")[0]["value"]
        served = [row["job"] for row in self.rows("SELECT job FROM running WHERE NOT stopping ORDER BY job")]
        for name in names or ("a", "b"):
            self.report(name, number, *(served if name == "a" else ()))

    def rounds(self, count: int) -> None:
        for _ in range(count):
            self.round()
            self.applied()

    def step(self, job: str = "j") -> str | None:
        plan = self.sync(job)["plan"]
        return None if plan is None else str(plan["step"])

    def rescaling(self, task_count: int = 4) -> int:
        """A job runs with 2 tasks and is asked to have more."""
        write_layer(self.engine, "j", make_layer())
        self.rounds(1)
        return write_layer(self.engine, "j", make_layer(task_count=task_count))
