"""A task that does not stop costs its neighbours a move to another host, never the end of their host."""

from __future__ import annotations

from penstock.wire.cluster import HeartbeatAnswer
from services.task_manager.decide.model import HostPhase
from tests.support.task_manager.fake_hosts import FakeHost
from tests.support.task_manager.world import REGIONS, World, all_shards, running_world, shards_of, template

NEIGHBOURS = {"flights/0", "flights/1"}


def stopping_world() -> tuple[World, FakeHost]:
    """Three tasks share a host. That of `endless` is to stop, does not, and its time is over."""
    world = running_world(template(), template("endless", task_count=1))
    host = world.host_of("endless/0")
    host.endless.add("endless/0")
    world.jobs(template())
    world.settle()
    assert world.running() == NEIGHBOURS | {"endless/0"}
    world.wait(30.0)
    return world, host


def test_neighbours_move_to_a_fresh_host_before_theirs_is_killed() -> None:
    """
    1. The time to stop is over: another host starts. The neighbours run on until it is ready.
    2. They move there. Only then the host is killed, with the one task that is left.
    """
    world, host = stopping_world()
    (fresh,) = [other for other in world.hosts.alive() if other is not host]
    assert host.how is None
    assert host.tasks.keys() >= NEIGHBOURS
    world.wait(20.0)
    assert host.how is None, "the fresh host is not ready"
    assert host.tasks.keys() >= NEIGHBOURS
    world.settle()
    assert host.how is not None
    assert host.how.reason == "killed"
    assert fresh.tasks.keys() == NEIGHBOURS
    assert world.container.summary().totals.get("task_crashes", 0) == 0


def test_a_host_whose_task_ends_after_all_stays() -> None:
    """1. The task ends while the fresh host starts. 2. The host has room again and is not killed."""
    world, host = stopping_world()
    host.endless.clear()
    world.settle()
    assert host.how is None
    assert world.running() == NEIGHBOURS
    assert world.container.summary().observed.hosts[host.name].phase is HostPhase.READY
    world.wait(200.0)
    assert host.how is None


def test_tasks_that_do_not_start_beside_a_query_that_does_not_stop_keep_no_host() -> None:
    """What keeps the query keeps their starts, too. Once the time to stop is over they start on another host."""
    world = running_world(template("endless", task_count=1))
    host = world.host_of("endless/0")
    host.endless |= {"endless/0", *NEIGHBOURS}
    world.jobs(template())
    world.settle()
    assert host.how is None
    world.wait(30.0)
    assert host.how is not None
    assert host.how.reason == "killed"
    world.settle()
    assert world.running() == NEIGHBOURS


def test_the_time_for_the_move_is_limited() -> None:
    """No other host becomes ready: after 120 s the host is killed with its tasks."""
    world, host = stopping_world()
    for other in world.hosts.alive():
        other.stuck = other is not host
    world.wait(115.0)
    assert host.how is None
    world.wait(10.0)
    assert host.how is not None


def test_the_end_of_the_lease_waits_for_no_move() -> None:
    """1. A host is being left. 2. The lease ends: ten seconds later it is killed."""
    world, host = stopping_world()
    lease_ends = world.clock.seconds + world.container.summary().lease_seconds_left
    world.clock.seconds = lease_ends
    world.container.tick()
    assert host.how is None
    world.clock.seconds = lease_ends + 10.0
    world.container.tick()
    assert host.how is not None


def test_no_work_is_given_to_a_host_that_is_being_left() -> None:
    """A task that is wanted meanwhile waits for the fresh host."""
    world, host = stopping_world()
    world.jobs(template(), template("late", task_count=1))
    world.container.tick()
    host.answer()
    assert "late/0" not in host.tasks
    world.settle()
    assert world.host_of("late/0") is not host


def test_a_dropped_shard_moves_the_neighbours_too() -> None:
    """1. DROP of the shard of a task that does not stop, within 3 s. 2. Its neighbour of another shard moves first."""
    world = running_world(template(task_count=2))
    host = world.host_of("flights/0")
    host.endless.add("flights/0")
    order = world.order(shards_of("flights", [0]), deadline_seconds=3.0)
    world.container.drop(order)
    world.heartbeat({shard: epoch for shard, epoch in all_shards().items() if shard not in order.shards})
    world.container.tick()
    world.clock.seconds += 3.0
    world.settle()
    assert host.how is not None
    assert world.running() == {"flights/1"}
    assert world.container.summary().totals.get("task_crashes", 0) == 0


def test_a_drop_ends_the_host_in_time_even_if_neighbours_cannot_move() -> None:
    """
    1. DROP within 10 s, of a shard whose task does not stop. No other host becomes ready.
    2. The host has its usual time to be left, but the Shard Manager waits: 30 s after the deadline it is killed.
    3. A repeated DROP does not put that off, and is answered then.
    """
    world = running_world(template(task_count=2))
    host = world.host_of("flights/0")
    host.endless.add("flights/0")
    order = world.order(shards_of("flights", [0]), deadline_seconds=10.0)
    dropped = world.container.drop(order)
    kept = {shard: epoch for shard, epoch in all_shards().items() if shard not in order.shards}
    world.heartbeat(kept)
    world.wait(10.0)
    for other in world.hosts.alive():
        other.stuck = other is not host
    world.wait(15.0)
    assert world.container.drop(order) == dropped
    world.wait(10.0)
    assert host.how is None
    assert world.container.await_stopped(order, dropped, 0.0).tasks == {}
    world.wait(5.0)
    assert host.how is not None
    world.container.tick()
    assert world.container.await_stopped(order, dropped, 0.0) == dropped


def test_a_drop_that_was_taken_back_leaves_no_deadline() -> None:
    """
    1. DROP of a shard. Before the next tick its shard is merged with another one, and the container owns both under the
       epoch of before: the task runs on.
    2. Much later the task stops in the ordinary way, and takes a moment. Its host and its neighbour stay.
    """
    world = running_world(template(task_count=2))
    host = world.host_of("flights/0")
    request = world.container.heartbeat_request()
    assert request is not None
    world.container.drop(world.order(shards_of("flights", [0]), deadline_seconds=3.0))
    world.version += 1
    merged = HeartbeatAnswer(
        known=True,
        version=world.version,
        shard_count=4,
        selectors=REGIONS,
        lease_seconds=40.0,
        shards=all_shards(count=4),
    )
    world.container.heartbeat_answered(request, merged, world.clock.monotonic())
    world.container.tick()
    world.clock.seconds += 35.0
    world.container.heartbeat_answered(request, merged, world.clock.monotonic())
    world.settle()
    assert host.tasks.keys() == NEIGHBOURS
    host.endless.add("flights/0")
    world.jobs(template(task_count=2, revision=2, restarts=1))
    world.settle()
    assert host.how is None
    host.endless.clear()
    world.settle()
    assert (host.how, host.tasks.keys()) == (None, NEIGHBOURS)
