"""A Task Manager's container in a world that the test controls: hosts, clock, Shard Manager and Task Service."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any

from penstock.config.keygroups import ranges
from penstock.config.model import JobConfig
from penstock.model.reports import TaskReport
from penstock.tasks.host_request import HostRequest
from penstock.tasks.host_task import HostTask
from penstock.tasks.redistribution import Layout, RedistributionRequest
from penstock.tasks.shards import shard_of
from penstock.tasks.spec import TaskSpec, TaskTemplate, key_group_count, task_id
from penstock.wire.cluster import Capacity, HeartbeatAnswer, HeartbeatRequest, Identity, ShardOrders, Snapshot
from penstock.wire.host_tasks import HostTaskAnswer
from services.task_manager.container import Container
from services.task_manager.decide.model import Limits
from services.task_manager.specs.spec_cache import updated
from tests.support.config.jobs import job
from tests.support.control.clock import FakeClock
from tests.support.task_manager.fake_hosts import FakeHost, FakeHosts

SHARDS = 8
LEASE_SECONDS = 40.0
LONGEST_ROUNDS = 20
REGIONS = ("local", "elsewhere")
CAPACITY = Capacity(cpu_cores=2.0, memory_bytes=2**31, disk_bytes=2**34)


class World:
    """A container, with the Shard Manager and the Task Service played by the test."""

    def __init__(self, limits: Limits | None = None, *, life: str = "life") -> None:
        self.clock = FakeClock()
        self.hosts = FakeHosts()
        self.version = 0
        lives = count(1)
        self.container = Container(
            Identity(container="c1", url="http://c1", region="local", capacity=CAPACITY),
            limits or Limits(),
            self.hosts,
            self.clock,
            lambda: f"{life}-{next(lives)}",
        )
        self.commit_number = 0
        self.templates: dict[str, TaskTemplate] = {}

    # ---- messages to the container

    def jobs(self, *templates: TaskTemplate) -> World:
        """The Task Service sends a full snapshot with these jobs."""
        self.commit_number += 1
        self.templates = {template.job: template for template in templates}
        snapshot = Snapshot(full=True, commit_number=self.commit_number, shard_count=SHARDS, templates=templates)
        self.container.take_specs(updated(None, snapshot))
        return self

    def heartbeat(
        self, shards: Mapping[int, int] | None = None, *, known: bool = True, unasked_stop: int = 0
    ) -> HeartbeatRequest | None:
        """One heartbeat, answered at once with these shards (default: the held ones). None when none is sent."""
        request = self.container.heartbeat_request()
        if request is None:
            return None
        owned = dict(shards) if shards is not None else dict(request.held)
        self.version = max([self.version, *owned.values()])
        answer = HeartbeatAnswer(
            known=known,
            version=self.version,
            shard_count=SHARDS,
            selectors=REGIONS,
            lease_seconds=LEASE_SECONDS,
            shards=owned if known else {},
            unasked_stop=unasked_stop,
        )
        self.container.heartbeat_answered(request, answer, self.clock.monotonic())
        return request

    def order(self, shards: Mapping[int, int], **more: Any) -> ShardOrders:
        """An order for the present incarnation of the container."""
        self.version = max([self.version, *shards.values()])
        fields: dict[str, Any] = {
            "container": "c1",
            "incarnation": self.container.summary().incarnation,
            "shards": dict(shards),
            "version": self.version,
            "leader_epoch": 1,
            "shard_count": SHARDS,
            **more,
        }
        return ShardOrders(**fields)

    # ---- time and results

    def settle(self) -> None:
        """Ticks and lets hosts answer until a tick decides nothing. Fails after `LONGEST_ROUNDS` ticks."""
        self.hosts.speak()
        for _ in range(LONGEST_ROUNDS):
            actions = self.container.tick()
            for host in list(self.hosts.alive()):
                host.answer()
            if not actions and not self.container.tick():
                return
        raise AssertionError(f"still deciding: {self.container.tick()}")

    def wait(self, seconds: float, *, heartbeats: bool = True) -> None:
        """Time passes in steps of five seconds, each with a heartbeat, a word of each host and a tick."""
        left = seconds
        while left > 0:
            self.clock.seconds += min(5.0, left)
            left -= 5.0
            if heartbeats:
                self.heartbeat()
            self.hosts.speak()
            self.container.tick()

    def ask(self, request: HostRequest, leader_epoch: int = 1) -> HostTaskAnswer:
        """A State Syncer asks for a host task, without waiting for its end."""
        return self.container.host_task(host_task(request, leader_epoch), 0.0)

    def running(self) -> set[str]:
        """The ids of the tasks that run on hosts."""
        return set(self.hosts.running())

    def reports(self) -> dict[str, TaskReport]:
        """The report's tasks by id."""
        return {task_id(report.job, report.index): report for report in self.container.report().tasks}

    def host_of(self, name: str) -> FakeHost:
        """The host that runs a task."""
        return next(host for host in self.hosts.alive() if name in host.tasks)


def running_world(*templates: TaskTemplate, limits: Limits | None = None) -> World:
    """A container that owns every shard under epoch 1 and runs these jobs."""
    world = World(limits).jobs(*templates)
    world.heartbeat(all_shards())
    world.settle()
    return world


def template(
    name: str = "flights", *, revision: int = 1, restarts: int = 0, generation: int = 1, **changes: Any
) -> TaskTemplate:
    """A job's template; `changes` is a merge patch of a valid configuration."""
    return TaskTemplate(
        job=name,
        commit_number=revision,
        revision=revision,
        generation=generation,
        restarts=restarts,
        config=JobConfig.model_validate(job({"task_count": 2, **changes})),
    )


def spec(name: str = "flights", index: int = 0, **more: Any) -> TaskSpec:
    """One task's spec of such a template."""
    made = template(name, **more)
    key_groups = next(iter(made.config.inputs.values())).key_groups
    return TaskSpec(
        job=name,
        index=index,
        revision=made.revision,
        generation=made.generation,
        restarts=made.restarts,
        key_groups=ranges(key_groups, made.config.task_count)[index],
        config=made.config,
    )


def shards_of(name: str, indices: Iterable[int] = (0, 1)) -> dict[int, int]:
    """The shards of a job's tasks, all under epoch 1."""
    return {shard_of(task_id(name, index), SHARDS): 1 for index in indices}


def layout(generation: int, task_count: int = 2, **changes: Any) -> Layout:
    """One generation of such a job."""
    config = template(task_count=task_count, **changes).config
    return Layout(generation=generation, config=config, ranges=ranges(key_group_count(config), task_count))


def redistribution(generation: int = 2, **changes: Any) -> RedistributionRequest:
    """From generation 1 with two tasks to another with four; the state is small."""
    source, target = layout(1, **changes), layout(generation, 4, **changes)
    return RedistributionRequest(job="flights", source=source, target=target, stopped_at=1, state_bytes=0)


def host_task(request: HostRequest, leader_epoch: int = 1) -> HostTask:
    """What a State Syncer asks of a container."""
    return HostTask.model_validate({"leader_epoch": leader_epoch, "request": request})


def all_shards(epoch: int = 1, count: int = SHARDS) -> dict[int, int]:
    """Every shard under one epoch."""
    return dict.fromkeys(range(count), epoch)
