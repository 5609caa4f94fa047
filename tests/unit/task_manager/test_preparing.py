"""Tasks that a rescale will start: what a container tells its hosts of them, and that it does no more."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.model.reports import TaskState
from penstock.spark.channel import GiveUp, Prepare
from penstock.tasks.spec import Coming, TaskTemplate
from services.task_manager.decide.host_choice import host_key
from services.task_manager.decide.model import HostPhase, HostView, Observed, TaskView
from services.task_manager.hosts.preparing import over
from tests.support.task_manager.world import World, running_world, shards_of, spec, template


def with_coming(now: TaskTemplate, generation: int = 2, **changes: Any) -> TaskTemplate:
    """A job, during a rescale to three tasks."""
    to_be = template(revision=2, generation=generation, **{"task_count": 3, **changes})
    return now.model_copy(update={"coming": Coming(**{name: getattr(to_be, name) for name in Coming.model_fields})})


def held(revision: int = 1) -> TaskTemplate:
    return template(revision=revision).model_copy(update={"quiescing": True})


def prepared(world: World) -> list[tuple[str, int]]:
    """The tasks that any host was told to prepare, with their generations, in order."""
    sent = [each for host in world.hosts.all.values() for each in host.sent]
    return [(each.spec.task_id, each.spec.generation) for each in sent if isinstance(each, Prepare)]


def given_up(world: World) -> list[tuple[str, int]]:
    """The tasks that any host was told to give up, with their generations, in order."""
    sent = [each for host in world.hosts.all.values() for each in host.sent]
    return sorted((each.task_id, each.generation) for each in sent if isinstance(each, GiveUp))


def test_the_tasks_to_come_are_prepared_once_while_the_present_ones_stop_and_are_not_counted() -> None:
    """1. The job is held, and it is known what comes. 2. It is stopped. 3. The next generation starts."""
    world = running_world(template())
    world.jobs(with_coming(held()))
    world.settle()
    assert prepared(world) == [(f"flights/{index}", 2) for index in range(3)]
    assert {name: report.generation for name, report in world.reports().items()} == {"flights/0": 1, "flights/1": 1}
    world.jobs(with_coming(template(revision=2, desired_state="stopped")))
    world.settle()
    assert world.reports() == {}
    world.jobs(template(revision=3, generation=2, task_count=3))
    world.settle()
    assert len(prepared(world)) == 3
    assert world.hosts.running().keys() == {f"flights/{index}" for index in range(3)}
    assert world.container.summary().totals["task_starts"] == 5
    assert given_up(world) == []


def test_what_was_prepared_is_given_up_once_when_the_rescale_is_taken_back() -> None:
    world = running_world(template())
    world.jobs(with_coming(held()))
    world.settle()
    world.jobs(template(revision=2))
    world.settle()
    world.settle()
    assert given_up(world) == [(f"flights/{index}", 2) for index in range(3)]
    assert world.hosts.running().keys() == {f"flights/{index}" for index in range(2)}


def test_what_was_prepared_for_a_job_that_is_to_be_stopped_then_is_given_up() -> None:
    world = running_world(template())
    world.jobs(with_coming(held()))
    world.settle()
    world.jobs(template(revision=3, generation=2, task_count=3, desired_state="stopped"))
    world.settle()
    assert given_up(world) == [(f"flights/{index}", 2) for index in range(3)]


def test_only_tasks_of_owned_shards_are_prepared() -> None:
    world = World().jobs(with_coming(held()))
    world.heartbeat(shards_of("flights", [2]))
    world.settle()
    own = shards_of("flights", [2]).keys()
    expected = [f"flights/{index}" for index in range(3) if shards_of("flights", [index]).keys() <= own]
    assert [name for name, _ in prepared(world)] == expected


@pytest.mark.parametrize("changes", [{"isolation": "process"}, {"region": "elsewhere"}, {"desired_state": "stopped"}])
def test_what_no_shared_host_here_will_run_is_not_prepared(changes: dict[str, Any]) -> None:
    world = running_world(template())
    world.jobs(with_coming(held(), **changes))
    world.settle()
    assert prepared(world) == []


def test_a_host_is_started_once_for_tasks_to_come_that_no_host_here_can_run() -> None:
    """They are prepared when it is ready."""
    world = running_world(template())
    hosts = len(world.hosts.all)
    world.jobs(with_coming(held(), spark_settings={"spark.speculation": "false"}))
    world.settle()
    assert len(world.hosts.all) == hosts + 1
    assert len(prepared(world)) == 3
    world.settle()
    assert len(world.hosts.all) == hosts + 1


def test_another_attempt_is_prepared_again() -> None:
    """The container that wrote generation 2 was lost."""
    world = running_world(template())
    world.jobs(with_coming(held()))
    world.settle()
    world.jobs(with_coming(held(revision=2), generation=3))
    world.settle()
    assert prepared(world) == [(f"flights/{index}", generation) for generation in (2, 3) for index in range(3)]
    assert given_up(world) == [(f"flights/{index}", 2) for index in range(3)]


@pytest.mark.parametrize(("host", "is_unused"), [("h1", False), ("h2", True)])
def test_what_another_host_has_started_is_given_up(host: str, is_unused: bool) -> None:
    """The one that starts the task takes what it made."""
    coming = spec(generation=2)
    hosts = {name: HostView(name, host_key(coming), HostPhase.READY, 0.0, None) for name in ("h1", "h2")}
    observed = Observed({"flights/0": TaskView(coming, 3, 1, TaskState.STARTING, host, 0.0)}, hosts)
    told = {("flights/0", 2, "h1"): coming, ("flights/0", 2, "ended"): coming}
    assert over(told, [], running_world(template()).container._specs, [], observed) == {
        ("flights/0", 2, "h1"): is_unused,
        ("flights/0", 2, "ended"): False,
    }
