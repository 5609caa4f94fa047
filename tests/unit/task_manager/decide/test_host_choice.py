"""Which tasks share a host, and which tasks get a place first."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.reports import TaskState
from penstock.spark.channel import Start
from services.task_manager.decide.actions import StartHost, StartTask
from services.task_manager.decide.host_choice import DEFAULT_KEY, choose_hosts, host_key
from services.task_manager.decide.model import DesiredTask, HostPhase, HostView, Limits, Observed, TaskView
from tests.support.task_manager.world import World, all_shards, spec, template

NOW = 1000.0


def waiting(**priorities: int) -> list[DesiredTask]:
    return [DesiredTask(spec(name, priority=priority), 1, 1) for name, priority in priorities.items()]


def there(**load: int) -> Observed:
    """Ready hosts by name, each with so many tasks."""
    tasks = [
        TaskView(spec(f"here-{name}", index, task_count=4), 1, 1, TaskState.RUNNING, name, NOW)
        for name in load
        for index in range(load[name])
    ]
    hosts = {name: HostView(name, DEFAULT_KEY, HostPhase.READY, NOW, NOW) for name in load}
    return Observed({task.task_id: task for task in tasks}, hosts)


def placed(starts: list[StartTask]) -> list[tuple[str, str]]:
    return [(start.spec.job, start.host) for start in starts]


def test_the_most_important_get_the_room_that_there_is() -> None:
    tasks = waiting(alpha=0, beta=5, gamma=-3, delta=5)
    starts, new_hosts = choose_hosts(tasks, there(h=0), Limits(tasks_per_host=3), NOW)
    assert placed(starts) == [("beta", "h"), ("delta", "h"), ("alpha", "h")]
    assert new_hosts == [StartHost(DEFAULT_KEY)]


def test_each_host_gets_its_most_important_tasks_first() -> None:
    """A host with little room is used up, and what the other gets begins with the second task, not with the third."""
    tasks = waiting(alpha=4, beta=3, gamma=2, delta=1)
    starts, _ = choose_hosts(tasks, there(full=1, idle=0), Limits(tasks_per_host=3), NOW)
    assert placed(starts) == [("alpha", "full"), ("beta", "idle"), ("gamma", "full"), ("delta", "idle")]


def test_the_host_of_the_most_important_task_is_started_first() -> None:
    low = DesiredTask(spec("alpha", isolation="process"), 1, 1)
    high = DesiredTask(spec("omega", isolation="process", priority=7), 1, 1)
    _, new_hosts = choose_hosts([low, high], there(), Limits(), NOW)
    assert new_hosts == [StartHost(host_key(high.spec)), StartHost(host_key(low.spec))]


def test_after_a_rejoin_a_host_is_told_of_important_tasks_first() -> None:
    """1. Three jobs run. 2. The shards come back under new epochs. 3. Once stopped, tasks start by priority."""
    world = World()
    priorities = {"alpha": -1, "beta": 900, "gamma": 0}
    world.jobs(*(template(name, task_count=1, priority=priority) for name, priority in priorities.items()))
    world.heartbeat(all_shards())
    world.settle()
    world.heartbeat(all_shards(epoch=2))
    world.settle()
    (told,) = ([each for each in host.sent if isinstance(each, Start)] for host in world.hosts.alive())
    assert [(start.spec.job, start.epoch) for start in told] == [
        *(("beta", 1), ("gamma", 1), ("alpha", 1)),
        *(("beta", 2), ("gamma", 2), ("alpha", 2)),
    ]


@given(
    st.lists(st.integers(-1000, 1000), max_size=12),
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 4)),
    st.integers(1, 4),
)
def test_nobody_waits_while_a_less_important_one_starts(priorities: list[int], load: dict[str, int], room: int) -> None:
    """And each host is used as full as if nothing were more important than anything else."""
    tasks = [DesiredTask(spec(f"job-{number}", priority=each), 1, 1) for number, each in enumerate(priorities)]
    observed, limits = there(**load), Limits(tasks_per_host=room)
    starts, _ = choose_hosts(tasks, observed, limits, NOW)
    started = [start.spec.config.priority for start in starts]
    assert started == sorted(priorities, reverse=True)[: len(started)]
    equal = [DesiredTask(spec(f"job-{number}"), 1, 1) for number in range(len(tasks))]
    used = choose_hosts(equal, observed, limits, NOW)[0]
    assert Counter(start.host for start in starts) == Counter(start.host for start in used)


@pytest.mark.parametrize(
    ("change", "shares"),
    [
        ({}, True),
        ({"priority": 1}, True),
        ({"spark_settings": {"spark.sql.ansi.enabled": "true"}}, True),
        ({"spark_settings": {"spark.executor.memory": "1g"}}, False),
        ({"package": {"version": "9"}}, False),
        ({"isolation": "process"}, False),
    ],
)
def test_which_tasks_share_a_host(change: dict[str, object], shares: bool) -> None:
    assert (host_key(spec("a")) == host_key(spec("b", **change))) is shares


@pytest.mark.parametrize(
    ("fields", "shares"),
    [
        ({}, True),
        ({"output": {"type": "postgres", "table": "t"}}, False),
        ({"side_outputs": {"s": {"output": {"type": "postgres", "table": "t"}}}}, False),
    ],
)
def test_code_of_other_jobs_does_not_see_a_connection(fields: dict[str, object], shares: bool) -> None:
    code = {"package": {"name": "p", "version": "1"}, **fields}
    assert (host_key(spec("a", **code)) == host_key(spec("b", **code))) is shares
