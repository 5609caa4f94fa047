"""Room for host tasks: a task that hangs, or whose host never starts, does not keep others from theirs."""

from __future__ import annotations

from penstock.tasks.host_task import POLICIES
from penstock.tasks.sinks import SinkRequest
from penstock.wire.host_tasks import LOST, HostTaskState
from services.task_manager.decide.host_choice import host_key_for
from services.task_manager.decide.model import HostFailure, Limits, Observed
from services.task_manager.hosts.host_tasks import AcceptedHostTasks
from tests.support.task_manager.world import host_task, layout, redistribution
from tests.unit.task_manager.test_host_tasks import GIB, OTHER, SEAL, given, ready_world, state


def outputs(count: int) -> list[SinkRequest]:
    return [SinkRequest(job=f"j{n}", revision=1, config=layout(1).config) for n in range(count)]


def test_a_seal_does_not_wait_for_outputs_that_hang() -> None:
    """1. A host has as many outputs to make as it may, and they hang. 2. A seal is begun beside them. 3. Nobody wants
    the outputs any more: others are begun, although the hung ones never end."""
    world = ready_world(Limits(host_tasks_per_host=2))
    (host,) = world.hosts.alive()
    hung, later = outputs(4)[:2], outputs(4)[2:]
    for request in (*hung, *later):
        state(world, request)
    world.container.tick()
    assert given(host) == hung
    state(world, SEAL)
    world.container.tick()
    assert given(host) == [*hung, SEAL]
    for request in hung:
        world.container.cancel_host_task(host_task(request).key, 1)
    world.container.tick()
    assert given(host) == [*hung, SEAL, *later]


def test_what_waits_for_a_host_that_never_starts_is_lost() -> None:
    """1. Hosts of a package fail to start: the task waits for the next. 2. After some in a row it is over here."""
    tasks = AcceptedHostTasks()
    other = redistribution(package=OTHER)
    tasks.ask(host_task(other), GIB)
    key = host_key_for(other, GIB)
    for count, now, over in ((2, 0.0, False), (3, 2.0, False), (3, 0.0, True)):
        tasks.fail_without_host(Observed(host_failures={key: HostFailure(count, "no such package", 1.0)}), now)
        assert tasks.is_over(host_task(other).key) is over
    answer = tasks.answer(host_task(other).key)
    assert (answer.state, answer.error_kind) == (HostTaskState.FAILED, LOST)


def test_a_host_task_that_hangs_ends_its_host_and_is_lost() -> None:
    """1. A redistribution hangs; a seal on its host ends well. 2. Just before the limit the host is left alone. 3. At
    the limit it is killed: the redistribution is lost. 4. Asked again, another host does it."""
    world = ready_world(Limits(host_task_seconds=600.0))
    (host,) = world.hosts.alive()
    state(world, SEAL)
    world.settle()
    state(world)
    world.container.tick()
    world.wait(595.0)
    assert (host.how, state(world)) == (None, HostTaskState.RUNNING)
    world.wait(5.0)
    assert host.how is not None
    world.container.tick()
    answer = world.ask(redistribution())
    assert (answer.state, answer.error_kind) == (HostTaskState.FAILED, LOST)
    assert answer.error == f"it was not done in time, so host {host.name} was killed"
    assert state(world) is HostTaskState.RUNNING
    world.settle()
    assert state(world) is HostTaskState.DONE


def test_the_oldest_host_task_of_a_host_sets_its_limit_and_one_that_is_over_sets_none() -> None:
    """1. An output is made at once; a second one, later, takes as long as it may. 2. Nothing is killed for the first.
    3. A third one hangs, beside younger ones that nobody wants any more: the host is killed for the third."""
    world = ready_world(Limits(host_task_seconds=600.0, host_tasks_per_host=2))
    (host,) = world.hosts.alive()
    first, second, third, fourth = outputs(4)
    state(world, first)
    world.settle()
    world.wait(300.0)
    state(world, second)
    world.container.tick()
    world.wait(595.0)
    host.answer()
    state(world, third)
    world.container.tick()
    world.wait(10.0)
    assert (host.how, state(world, second)) == (None, HostTaskState.DONE)
    state(world, fourth)
    world.container.cancel_host_task(host_task(third).key, 1)
    world.wait(585.0)
    assert host.how is None
    world.wait(5.0)
    assert host.how is not None
    world.container.tick()
    assert world.ask(fourth).error == f"host {host.name} ended: killed"


def test_no_host_is_killed_for_a_task_that_the_control_plane_still_waits_for() -> None:
    assert Limits().host_task_seconds > max(policy.longest_seconds for policy in POLICIES.values())
