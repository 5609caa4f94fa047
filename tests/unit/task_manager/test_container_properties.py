"""What holds whatever happens: a container is driven at random, and a checker that knows only promises watches."""

from __future__ import annotations

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.spark.channel import Command, Start
from services.task_manager.decide.model import Limits
from tests.support.task_manager.fake_hosts import FakeHost
from tests.support.task_manager.world import SHARDS, World, all_shards, template

CHANGES = st.sampled_from(
    [
        {},
        {"owner": "someone"},
        {"priority": 3},
        {"trigger_interval_seconds": 2.0},
        {"task_count": 5},
        {"isolation": "process"},
        {"desired_state": "stopped"},
    ]
)
LIMITS = Limits(tasks_per_host=2)


class ContainerMachine(RuleBasedStateMachine):
    """Random messages, ends of tasks and hosts, and time."""

    @initialize()
    def begin(self) -> None:
        self.world = World(LIMITS)
        self.epoch = 0
        self.revision = 1
        self.jobs = {"a": template("a"), "b": template("b")}
        self.world.jobs(*self.jobs.values())

    @rule(name=st.sampled_from("abc"), change=CHANGES, restarts=st.integers(0, 2))
    def change_a_job(self, name: str, change: dict[str, object], restarts: int) -> None:
        self.revision += 1
        self.jobs[name] = template(name, revision=self.revision, restarts=restarts, **change)
        self.world.jobs(*self.jobs.values())

    @rule(name=st.sampled_from("abc"))
    def delete_a_job(self, name: str) -> None:
        self.jobs.pop(name, None)
        self.world.jobs(*self.jobs.values())

    @rule(shards=st.sets(st.integers(0, SHARDS - 1)), anew=st.booleans(), known=st.integers(0, 9))
    def heartbeat(self, shards: set[int], anew: bool, known: int) -> None:
        held = self.world.container.summary().shards
        self.epoch += 1
        epochs = {shard: self.epoch if anew else held.get(shard, self.epoch) for shard in shards}
        self.world.version = self.epoch
        self.world.heartbeat(epochs, known=known > 0)

    @rule(data=st.data())
    def drop_a_shard(self, data: st.DataObject) -> None:
        summary = self.world.container.summary()
        held = summary.shards if summary.lease_seconds_left else {}
        if held:
            shard = data.draw(st.sampled_from(sorted(held)))
            self.world.container.drop(self.world.order({shard: held[shard]}))

    @rule(seconds=st.sampled_from([0.5, 3.0, 20.0, 45.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.clock.seconds += seconds

    @rule(data=st.data(), kind=st.sampled_from(["retryable", "broken_task", "fenced"]))
    def a_task_ends(self, data: st.DataObject, kind: str) -> None:
        busy = [host for host in self.world.hosts.alive() if host.tasks]
        if busy:
            host = data.draw(st.sampled_from(busy))
            host.end_task(data.draw(st.sampled_from(sorted(host.tasks))), kind=kind)

    @rule(data=st.data(), stuck=st.booleans())
    def a_host_fails(self, data: st.DataObject, stuck: bool) -> None:
        alive = self.world.hosts.alive()
        if alive:
            host = data.draw(st.sampled_from(alive))
            if stuck:
                host.stuck = True
            else:
                host.die("killed")

    @rule()
    def answer(self) -> None:
        for host in self.world.hosts.alive():
            host.answer()

    @rule()
    def tick(self) -> None:
        before = {name: len(host.sent) for name, host in self.world.hosts.all.items()}
        self.world.container.tick()
        summary = self.world.container.summary()
        for host in self.world.hosts.all.values():
            for command in host.sent[before.get(host.name, 0) :]:
                self._check(command, summary.lease_seconds_left, dict(summary.shards), host)

    def _check(self, command: Command, lease_seconds_left: float, shards: dict[int, int], host: FakeHost) -> None:
        if isinstance(command, Start):
            assert lease_seconds_left > 0, "started without a lease"
            assert command.epoch in shards.values(), "started under an epoch that is not owned"
            assert command.spec.task_id not in host.tasks, "started where it runs"

    @invariant()
    def no_task_runs_twice(self) -> None:
        running = Counter(name for host in self.world.hosts.alive() for name in host.tasks)
        assert not [name for name, number in running.items() if number > 1]

    @invariant()
    def hosts_are_not_overfull(self) -> None:
        for host in self.world.hosts.alive():
            assert len(host.tasks) <= (1 if host.key.isolated_task else LIMITS.tasks_per_host)

    def teardown(self) -> None:
        """When the world is calm again everything wanted runs, and nothing more is asked for."""
        for host in self.world.hosts.alive():
            if host.stuck:
                host.die("killed")
        self.world.wait(120.0, heartbeats=False)
        self.world.settle()
        self.epoch += 1
        self.world.heartbeat(all_shards(self.epoch))
        self.world.settle()
        wanted = {
            f"{name}/{index}"
            for name, made in self.jobs.items()
            if made.config.desired_state == "running"
            for index in range(made.config.task_count)
        }
        assert self.world.running() == wanted
        assert self.world.container.tick() == ()


TestContainerMachine = ContainerMachine.TestCase
TestContainerMachine.settings = settings(stateful_step_count=40)
