"""Room for host tasks: a task that hangs, or whose host never starts, does not keep others from theirs."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from penstock.tasks.host_task import POLICIES, TAKE_SAVEPOINT
from penstock.tasks.redistribution import RedistributionRequest
from penstock.tasks.savepoint import SavepointRemoval, SavepointRequest
from penstock.tasks.sinks import SinkRequest
from penstock.wire.host_tasks import LOST, HostTaskState
from services.task_manager.decide.host_choice import host_key_for
from services.task_manager.decide.model import HostFailure, Limits, Observed
from services.task_manager.hosts.host_tasks import AcceptedHostTasks
from tests.support.task_manager.fake_hosts import FakeHost
from tests.support.task_manager.world import World, all_shards, host_task, layout, redistribution, template
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
    """1. Hosts of a package fail to start: the task waits for the next. 2. After some in a row it is over here. 3.
    Asked for again, it waits for one more start. 4. A host was ready meanwhile: the count begins anew."""
    tasks = AcceptedHostTasks()
    other = redistribution(package=OTHER)
    key = host_key_for(other, GIB)
    for counts in ((2, 3), (3, 3, 4), (4, 0, 2, 3)):
        tasks.ask(host_task(other), key, 0.0)
        for count in counts:
            assert not tasks.is_over(host_task(other).key)
            failures = {key: HostFailure(count, "no such package", 1.0)} if count else {}
            tasks.fail_without_host(Observed(host_failures=failures))
        assert tasks.is_over(host_task(other).key)
        answer = tasks.answer(host_task(other).key)
        assert (answer.state, answer.error_kind) == (HostTaskState.FAILED, LOST)


def test_a_short_trouble_does_not_use_up_the_attempts_at_a_savepoint() -> None:
    """1. Hosts of a large state fail to start at once. 2. The take is lost and asked for again, as often as it may. 3.
    The trouble lasts for half a minute: one of the attempts is still to come."""
    world = ready_world()
    taken = SavepointRequest(job="flights", name="nightly", number=2, layout=layout(1), state_bytes=2**28)
    losses, began = 0, world.clock.monotonic()
    while losses < (POLICIES[TAKE_SAVEPOINT].losses or 0):
        world.wait(1.0)
        for host in world.hosts.alive():
            if host.key.for_host_tasks:
                host.die("no memory")
        losses += world.ask(taken).error_kind == LOST
    assert world.clock.monotonic() - began > 30.0


def own_host(world: World) -> FakeHost:
    """The host that was started last, which is ready now."""
    world.container.tick()
    host = list(world.hosts.alive())[-1]
    assert host.key.for_host_tasks
    host.become_ready()
    world.container.tick()
    return host


def large(generation: int = 2) -> RedistributionRequest:
    return redistribution(generation).model_copy(update={"state_bytes": 2**28})


def test_a_host_task_that_hangs_ends_its_own_host_and_is_lost() -> None:
    """1. A redistribution hangs on a host of its own. 2. Just before the limit the host is left alone. 3. At the limit
    it is killed: the redistribution is lost. 4. Asked again, another host does it."""
    world = ready_world()
    state(world, large())
    host = own_host(world)
    world.wait(3895.0)
    assert (host.how, state(world, large())) == (None, HostTaskState.RUNNING)
    world.wait(5.0)
    assert host.how is not None
    world.container.tick()
    answer = world.ask(large())
    assert (answer.state, answer.error_kind) == (HostTaskState.FAILED, LOST)
    assert answer.error == f"it was not done in time, so host {host.name} was killed"
    assert state(world, large()) is HostTaskState.RUNNING
    world.settle()
    assert state(world, large()) is HostTaskState.DONE


def test_each_host_task_of_an_own_host_has_the_whole_time_and_one_that_is_over_sets_no_limit() -> None:
    """1. A first redistribution takes long, and is done. 2. The second one begins after it, and may take as long: the
    host is not killed for the first. 3. Nobody wants the second any more, and it hangs: the host is killed soon, so
    that other work finds room. 4. What was done stays done."""
    world = ready_world()
    first, second = large(2), large(3)
    state(world, first)
    host = own_host(world)
    world.wait(3000.0)
    host.answer()
    state(world, second)
    world.wait(5.0)
    assert given(host) == [first, second]
    world.wait(3000.0)
    world.container.cancel_host_task(host_task(second).key, 1)
    world.container.tick()
    world.wait(29.0)
    assert (host.how, state(world, first)) == (None, HostTaskState.DONE)
    world.wait(2.0)
    assert host.how is not None
    assert state(world, first) is HostTaskState.DONE


def test_a_host_whose_cancelled_task_ends_in_time_stays() -> None:
    world = ready_world()
    state(world, large())
    host = own_host(world)
    world.container.cancel_host_task(host_task(large()).key, 1)
    world.container.tick()
    host.answer()
    world.wait(60.0)
    assert host.how is None


def test_no_host_with_tasks_is_killed_for_a_host_task() -> None:
    """1. A host has tasks, and removes a savepoint of many files, as it does an output, for 90 minutes. 2. No task of
    it ends. 3. The two are done."""
    world = ready_world()
    world.jobs(template())
    world.heartbeat(all_shards())
    world.settle()
    (host,) = world.hosts.alive()
    running = world.running()
    both = SavepointRemoval(job="others", name="nightly", number=2), *outputs(1)
    for request in both:
        state(world, request)
    world.wait(5400.0)
    assert given(host) == [*both]
    assert (host.how, world.running()) == (None, running)
    assert running == {"flights/0", "flights/1"}
    world.settle()
    assert [state(world, request) for request in both] == [HostTaskState.DONE] * 2


def test_no_host_is_killed_for_a_task_that_the_control_plane_still_waits_for() -> None:
    longest = max(policy.longest_seconds for policy in POLICIES.values())
    assert Limits().host_task_seconds > longest
    with pytest.raises(ValidationError, match="host_task_seconds"):
        Limits(host_task_seconds=longest)
