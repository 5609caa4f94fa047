"""What users and the Auto Scaler do: jobs are made, changed, rescaled, released, restarted, stopped, started and
deleted, at moments of the seed."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from itertools import count
from typing import Any

from penstock.tasks.ownership import CORDONED, DRAINING, OPEN
from penstock.tasks.selectors import selector_of
from tests.simulation.packages import version
from tests.simulation.scheduler import Scheduler
from tests.simulation.store import Database
from tests.simulation.story import Story
from tests.support.store.jobs import make_layer

OUTPUTS: tuple[tuple[Mapping[str, Any], ...], ...] = (
    ({"type": "kafka", "topic": "out"}, {"type": "kafka", "topic": "another"}),
    ({"type": "kafka", "topic": "parts", "key_groups": 4}, {"type": "kafka", "topic": "others", "key_groups": 4}),
)
"""What a job may write to: the outputs of a group can take each other's place, and those of the second must be made."""
CHANGES = (
    *("rescale", "change", "release") * 3,
    *("region", "restart", "stop", "delete", "scale", "scale", "override", "release and rescale"),
)


MOST_SHARDS = 64


class Workload:
    """`_wanted`: by job what its base layer overrides."""

    def __init__(
        self,
        scheduler: Scheduler,
        database: Database,
        story: Story,
        jobs: int,
        changes: tuple[str, ...],
        asks: tuple[dict[str, Any], ...],
        released: float,
    ) -> None:
        self._asks = asks
        self._changes = changes or CHANGES
        self._released = released
        self._scheduler = scheduler
        self._database = database
        self._story = story
        self._names = [f"j{number}" for number in range(jobs)]
        self._wanted: dict[str, dict[str, Any]] = {}
        self._versions = count(2)
        self._is_asked_again = False

    def begin(self, tasks: int | None = None) -> None:
        """Every job is made."""
        for name in self._names:
            self._write(name, self._fresh() | ({} if tasks is None else {"task_count": tasks}))

    def change_something(self) -> None:
        """One call of a user's, or of the scaler's."""
        random = self._scheduler.random
        name = random.choice(self._names)
        job = self._database.memory.jobs.get(name)
        if job is None:
            self._write(name, self._fresh())
            return
        if job.deleting:
            return
        match random.choice(self._changes):
            case "rescale":
                self._write(name, self._wanted[name] | {"task_count": random.randint(1, 4), "desired_state": "running"})
            case "change":
                self._write(name, self._wanted[name] | {"priority": random.randint(0, 3), **self._other_output(name)})
            case "release":
                self.release(name, version(next(self._versions), random))
            case "release and rescale":
                self.release(name, version(next(self._versions), random), task_count=random.randint(1, 4))
            case "region":
                self._write(name, self._wanted[name] | self._ask())
            case "restart":
                self._touch(name, "restart")
                job.restarts += 1
            case "stop":
                self._write(name, self._wanted[name] | {"desired_state": random.choice(("stopped", "running"))})
            case "scale":
                self._layer(name, "scaler", random.choice(({"task_count": random.randint(1, 4)}, None)))
            case "override":
                self._layer(name, "oncall", random.choice(({"task_count": 2}, {"priority": 9}, None)))
            case "delete":
                self._delete(name)
        self._database.news.notify_all()

    def delete_something(self) -> None:
        """A job is deleted, if the one that is chosen is there."""
        name = self._scheduler.random.choice(self._names)
        if name in self._database.memory.jobs and not self._database.memory.jobs[name].deleting:
            self._delete(name)
            self._database.news.notify_all()

    def operate(self) -> None:
        """One call of an operator's: another number of shards, or a container is cordoned, drained or opened."""
        random, memory = self._scheduler.random, self._database.memory
        if random.random() < 0.3:
            shards = random.choice((len(memory.owners) * 2, max(4, len(memory.owners) // 2)))
            memory.facts = memory.facts._replace(wanted=min(shards, MOST_SHARDS))
            self._story.tell("operator", "asks for shards", count=memory.facts.wanted)
        elif memory.members:
            name, availability = random.choice(sorted(memory.members)), random.choice((OPEN, CORDONED, DRAINING))
            limit_seconds = random.choice((None, 0.0, 30.0)) if availability == DRAINING else None
            until = None if limit_seconds is None else memory.wall_time() + timedelta(seconds=limit_seconds)
            memory.set_availability(name, availability, drain_until=until)
            self._story.tell("operator", "sets", container=name, availability=availability, limit_seconds=limit_seconds)

    def open_all(self) -> None:
        """Every container may have shards again."""
        for name in self._database.memory.members:
            self.open(name)

    def open(self, name: str) -> None:
        """A container that is known may have shards again."""
        if name in self._database.memory.members:
            self._database.memory.set_availability(name, OPEN)

    def release(self, name: str, version: str, **overrides: Any) -> None:
        """A new package for a job."""
        self._write(name, self._wanted[name] | {"package": _package(version)} | overrides)

    def ask_again(self) -> None:
        """A last write to each job, so that none is left alone after its failures, with a good package for a share of
        them; deleted ones are made again."""
        for number, name in enumerate(self._names):
            job = self._database.memory.jobs.get(name)
            if job is None or (not job.deleting and not self._is_asked_again):
                before = self._wanted.get(name) or self._fresh()
                again = {"desired_state": "running", "priority": 1 + before.get("priority", 0)}
                is_released = number % round(1 / self._released) == 0
                self._write(name, before | again | ({"package": _package("last")} if is_released else {}))
        self._is_asked_again = True
        self._database.news.notify_all()

    def change_the_number_of_shards(self) -> None:
        """An operator asks for twice as many, or half."""
        memory = self._database.memory
        count = memory.facts.sharding.count
        more = count * 2 if count * 2 <= MOST_SHARDS else count // 2
        less = max(1, count // 2)
        wanted = self._scheduler.random.choice((more, more, less))
        selectors = {selector for selector in map(selector_of, self._asks) if selector is not None}
        if not memory.facts.sharding.with_selectors(selectors).keeps_apart(wanted):
            return
        memory.facts = memory.facts._replace(wanted=wanted)
        self._story.tell("user", "asks for shards", count=wanted, present=count)

    def missing(self) -> bool:
        """Whether a job is gone by now that was deleted when everything was asked for again."""
        return any(name not in self._database.memory.jobs for name in self._names)

    def _fresh(self) -> dict[str, Any]:
        random = self._scheduler.random
        return {
            "task_count": random.randint(1, 4),
            "output": dict(random.choice(OUTPUTS)[0]),
            "package": _package("1"),
            **self._ask(),
        }

    def _ask(self) -> dict[str, Any]:
        return self._scheduler.random.choice(self._asks)

    def _other_output(self, name: str) -> dict[str, Any]:
        group = OUTPUTS["key_groups" in self._wanted[name]["output"]]
        return {"output": dict(self._scheduler.random.choice(group))}

    def _write(self, name: str, wanted: dict[str, Any]) -> None:
        self._wanted[name] = wanted
        revision = self._database.memory.write_layer(name, "base", _base(repr(sorted(wanted.items()))))
        self._story.tell("user", "writes", job=name, revision=revision, **wanted)

    def _layer(self, name: str, layer: str, config: dict[str, Any] | None) -> None:
        """None drops it."""
        revision = self._database.memory.write_layer(name, layer, config)
        self._story.tell(layer, "writes", job=name, revision=revision, config=config)

    def _delete(self, name: str) -> None:
        self._touch(name, "delete")
        self._database.memory.jobs[name].deleting = True

    def _touch(self, name: str, verb: str) -> None:
        memory = self._database.memory
        memory.jobs[name].revision = memory.next_number("revision")
        self._story.tell("user", verb, job=name, revision=memory.jobs[name].revision)


def _package(version: str) -> dict[str, str]:
    return {"name": "flights", "version": version}


@cache
def _base(key: str) -> dict[str, Any]:
    return make_layer(**dict(ast.literal_eval(key)))
