"""A container whose leases, incarnations and shards come and go."""

from __future__ import annotations

import pytest

from penstock.control.errors import Conflict
from penstock.model.reports import TaskState
from penstock.wire.cluster import HeartbeatAnswer
from tests.support.task_manager.world import SHARDS, World, all_shards, running_world, shards_of, template


def test_hosts_hear_of_every_lease_extension_before_they_start_tasks() -> None:
    """
    1. Tasks start: the first command of the host is a lease, counted from now.
    2. Heartbeats go on: every extension is passed on, none twice.
    """
    world = World()
    world.jobs(template())
    world.settle()
    world.heartbeat(all_shards())
    world.settle()
    (host,) = world.hosts.alive()
    assert [type(command).__name__ for command in host.sent][:2] == ["Lease", "Start"]
    assert (host.leases[0].seconds, host.leases[0].sent_at) == (40.0, world.clock.monotonic())
    world.wait(20.0)
    assert len(host.leases) == 5


def test_the_lease_runs_out_and_the_container_begins_anew() -> None:
    """
    1. Tasks run; heartbeats are answered no more.
    2. Before 40 s nothing happens; then every task is told to stop and the report shows it.
    3. While they stop there is no heartbeat: a new life begins empty.
    4. They have stopped: the heartbeat holds nothing and has another incarnation.
    5. The shards come back under new epochs and the tasks start again.
    """
    world = running_world(template())
    first = world.heartbeat()
    world.wait(39.0, heartbeats=False)
    assert world.container.summary().shards == all_shards()
    world.wait(2.0, heartbeats=False)
    assert {report.state for report in world.reports().values()} == {TaskState.STOPPING}
    assert world.container.summary().shards == {}
    assert world.container.heartbeat_request() is None
    world.settle()
    assert world.running() == set()
    request = world.heartbeat(all_shards(epoch=2))
    assert first is not None
    assert request is not None
    assert request.incarnation != first.incarnation
    assert (request.held, request.dropped) == ({}, {})
    world.settle()
    assert {start.epoch for start in world.hosts.running().values()} == {2}


def test_a_host_that_does_not_stop_without_a_lease_is_killed_in_time() -> None:
    """
    1. Two tasks run on a host that no longer answers; the lease runs out.
    2. Ten seconds later the host is killed, and nothing counts as a double run.
    """
    world = running_world(template())
    (stuck,) = world.hosts.alive()
    stuck.stuck = True
    world.wait(49.0, heartbeats=False)
    assert stuck.how is None
    world.wait(1.0, heartbeats=False)
    assert stuck.how is not None
    summary = world.container.summary()
    assert summary.double_run_seconds == 0
    assert summary.past_lease_seconds == pytest.approx(10.0)


def test_a_pause_of_the_whole_process_is_measured_honestly() -> None:
    """
    1. Tasks run; the process sleeps for 100 s with its hosts' leases running out.
    2. A host that ended itself when its lease ran out counts nothing; one that still runs counts from 50 s on.
    """
    measured = []
    for ends_itself in (True, False):
        world = running_world(template())
        (host,) = world.hosts.alive()
        host.stuck = True
        if ends_itself:
            host.die("lease lost", lease_ran_out=True)
        world.clock.seconds += 100.0
        world.container.tick()
        measured.append(world.container.summary().double_run_seconds)
    assert measured == [0.0, pytest.approx(50.0)]


def test_a_host_whose_end_was_not_heard_yet_counts_no_double_run() -> None:
    """
    1. Tasks run; the process sleeps for 100 s; its host ends itself when its lease runs out.
    2. What the host said last is still being read when the time is measured; then its end is known.
    """
    world = running_world(template())
    (host,) = world.hosts.alive()
    host.is_heard = False
    host.die("lease lost", lease_ran_out=True)
    world.clock.seconds += 100.0
    world.container.tick()
    host.is_heard = True
    world.container.tick()
    summary = world.container.summary()
    assert (summary.past_lease_seconds, summary.double_run_seconds) == (0.0, 0.0)
    assert not summary.observed.tasks


def test_an_answer_that_waited_in_a_queue_cannot_revive_a_lease() -> None:
    """
    1. A heartbeat is sent; the process sleeps for 50 s; then its answer is read.
    2. The lease had run out, so it is another life: the answer is for nobody.
    """
    world = running_world(template())
    request = world.container.heartbeat_request()
    assert request is not None
    world.clock.seconds += 50.0
    answer = HeartbeatAnswer(known=True, version=1, shard_count=SHARDS, lease_seconds=90.0, shards=all_shards())
    world.container.heartbeat_answered(request, answer, world.clock.monotonic() - 50.0)
    assert world.container.summary().lease_seconds_left == 0
    assert world.container.summary().shards == {}


def test_a_life_that_was_declared_lost_stops_everything() -> None:
    """
    1. Tasks run; the answer to a heartbeat is `known=False`.
    2. Everything stops, and the next heartbeat is that of an empty, new life.
    """
    world = running_world(template())
    before = world.heartbeat(known=False)
    world.settle()
    assert world.running() == set()
    after = world.heartbeat({})
    assert before is not None
    assert after is not None
    assert before.incarnation != after.incarnation
    assert after.held == {}


def test_a_dropped_shard_stops_and_is_taken_again_only_under_a_higher_epoch() -> None:
    """
    1. DROP for the shard of one task: it is told to stop; while it runs the shard is held, not dropped.
    2. It has stopped: the DROP is done and the heartbeat lists the shard as dropped.
    3. An answer that still has the shard under the old epoch changes nothing.
    4. ADD under a higher epoch: the task starts again.
    """
    world = running_world(template())
    (shard,) = shards_of("flights", [0])
    order = world.order({shard: 1})
    answers = world.container.drop(order)
    assert answers.tasks == {shard: ("flights/0",)}
    world.container.tick()
    held = world.container.heartbeat_request()
    assert held is not None
    assert (held.held.get(shard), held.dropped) == (1, {})
    assert world.container.await_stopped(order, answers, 0).tasks == {}
    world.settle()
    assert world.container.await_stopped(order, answers, 0).tasks == {shard: ("flights/0",)}
    assert world.running() == {"flights/1"}
    told = world.heartbeat(all_shards())
    assert told is not None
    assert told.dropped == {shard: 1}
    world.settle()
    assert world.running() == {"flights/1"}
    assert world.container.add(world.order({shard: 2})).tasks == {shard: ("flights/0",)}
    world.settle()
    assert world.hosts.running()["flights/0"].epoch == 2


def test_a_drop_that_takes_too_long_kills_the_host_and_spares_other_hosts() -> None:
    """
    1. One task runs isolated, another on the shared host; the isolated one does not stop.
    2. DROP of its shard with a deadline of 3 s: after it the isolated host is killed, the other runs on.
    """
    world = running_world(template("alone", isolation="process", task_count=1), template("shared", task_count=1))
    stuck = world.host_of("alone/0")
    stuck.stuck = True
    (shard,) = shards_of("alone", [0])
    order = world.order({shard: 1}, deadline_seconds=3.0)
    answers = world.container.drop(order)
    world.container.tick()
    world.clock.seconds += 2.9
    world.container.tick()
    assert stuck.how is None
    world.clock.seconds += 0.1
    world.settle()
    assert stuck.how is not None
    assert world.container.await_stopped(order, answers, 0).tasks.keys() == {shard}
    assert world.running() == {"shared/0"}


def test_a_drop_hurries_a_task_that_is_stopping_already() -> None:
    """1. A task is to restart and does not stop. 2. DROP of its shard within 3 s: its host is killed then."""
    world = running_world(template(task_count=1))
    stuck = world.host_of("flights/0")
    stuck.stuck = True
    world.jobs(template(task_count=1, revision=2, trigger_interval_seconds=1.0))
    world.container.tick()
    world.container.drop(world.order(shards_of("flights", [0]), deadline_seconds=3.0))
    world.clock.seconds += 2.9
    world.container.tick()
    assert stuck.how is None
    world.clock.seconds += 0.1
    world.container.tick()
    assert stuck.how is not None


def test_orders_of_other_lives_and_former_leaders_are_refused() -> None:
    """
    1. Orders for another incarnation or container are refused, and so is an ADD without a lease.
    2. After an order of leader epoch 5 one of epoch 4 is refused.
    """
    world = World()
    with pytest.raises(Conflict):
        world.container.add(world.order({1: 1}))
    world.heartbeat({})
    for wrong in ({"incarnation": "other"}, {"container": "c2"}):
        with pytest.raises(Conflict):
            world.container.drop(world.order({1: 1}, **wrong))
    world.container.add(world.order({1: 2}, leader_epoch=5))
    with pytest.raises(Conflict):
        world.container.drop(world.order({1: 2}, leader_epoch=4))
    assert world.container.summary().shards == {1: 2}


def test_an_answer_that_lacks_a_shard_stops_its_tasks() -> None:
    """
    1. Both tasks run; the next answer, under a newer version, has only one of the shards.
    2. The other task stops, and its shard is listed as dropped once it has.
    """
    world = running_world(template())
    kept = shards_of("flights", [1])
    (lost,) = shards_of("flights", [0]).keys() - kept.keys()
    world.version = 2
    world.heartbeat(kept)
    world.settle()
    assert world.running() == {"flights/1"}
    request = world.heartbeat(kept)
    assert request is not None
    assert request.dropped[lost] == 1


def test_a_shard_under_a_new_epoch_restarts_its_tasks() -> None:
    """
    1. An answer has the same shards under a higher epoch: another container may have run them in between.
    2. The tasks are stopped and started under the new one.
    """
    world = running_world(template())
    world.heartbeat(all_shards(epoch=3))
    world.settle()
    assert {start.epoch for start in world.hosts.running().values()} == {3}


def test_who_joins_starts_nothing_from_specs_that_are_older_than_its_membership() -> None:
    """
    1. A container that was away for long has a snapshot of commit 1 on its disk; it joins after commit 2.
    2. It owns every shard and starts nothing: what it knows may have been stopped, or deleted, while it was away.
    3. Newer specs come: it starts what they ask for.
    4. Later commits, which its heartbeats' answers name, hold nothing up: those who stop a job ask this container.
    """
    world = World().jobs(template("gone"), template("stays"))
    join(world, commit_number=2)
    world.settle()
    assert world.running() == set()
    world.jobs(template("stays"))
    world.settle()
    assert world.running() == {"stays/0", "stays/1"}
    join(world, commit_number=9)
    world.settle()
    assert world.running() == {"stays/0", "stays/1"}


def test_another_life_of_the_process_must_be_told_anew() -> None:
    """1. The lease runs out. 2. The container joins again, after commits that it has not heard of: it waits."""
    world = World().jobs(template())
    join(world, commit_number=1)
    world.settle()
    assert world.running() == {"flights/0", "flights/1"}
    world.wait(45.0, heartbeats=False)
    world.settle()
    join(world, commit_number=2)
    world.settle()
    assert world.running() == set()
    world.jobs(template())
    world.settle()
    assert world.running() == {"flights/0", "flights/1"}


def join(world: World, *, commit_number: int) -> None:
    """A heartbeat, answered with every shard and a commit of the running table."""
    request = world.container.heartbeat_request()
    assert request is not None
    world.version += 1
    answer = HeartbeatAnswer(
        known=True,
        version=world.version,
        shard_count=SHARDS,
        lease_seconds=40.0,
        shards=all_shards(world.version),
        commit_number=commit_number,
    )
    world.container.heartbeat_answered(request, answer, world.clock.monotonic())


def test_tasks_that_ask_for_another_region_are_held_and_others_of_the_shard_run() -> None:
    """
    1. Two jobs run. 2. One asks for another region: its tasks stop, are started no more, and say why.
    3. It asks for any: they run again.
    """
    world = running_world(template("a", task_count=1), template("b", task_count=1))
    assert world.running() == {"a/0", "b/0"}
    world.jobs(template("a", task_count=1, revision=2, region="elsewhere"), template("b", task_count=1))
    world.settle()
    assert world.running() == {"b/0"}
    held = world.reports()["a/0"]
    assert (held.state, held.crashes) == (TaskState.HELD, 0)
    assert held.error == "no: container c1 has region local, the job asks for region elsewhere"
    world.jobs(template("a", task_count=1, revision=3), template("b", task_count=1))
    world.settle()
    assert world.running() == {"a/0", "b/0"}


def test_a_shard_that_is_new_starts_no_task_from_specs_older_than_a_stop_that_was_not_asked_about() -> None:
    """
    1. The task of one shard runs. 2. Another shard comes, after a stop that this container has no specs of yet: its
    task does not start, the first one runs on. 3. The same shard by an order: still not. 4. New specs: it starts.
    """
    first, other = shards_of("flights", [0]), shards_of("flights", [1])
    world = World()
    world.jobs(template())
    world.heartbeat(first)
    world.settle()
    assert world.running() == {"flights/0"}
    stop = world.commit_number + 1
    world.heartbeat(first | other, unasked_stop=stop)
    world.settle()
    assert world.running() == {"flights/0"}
    world.container.add(world.order(other, unasked_stop=stop))
    world.heartbeat(unasked_stop=stop)
    world.settle()
    assert world.running() == {"flights/0"}
    world.jobs(template())
    world.settle()
    assert world.running() == {"flights/0", "flights/1"}


def test_a_shard_that_is_kept_needs_no_newer_specs() -> None:
    """The stop waits for the report of its owner."""
    world = running_world(template())
    before = world.running()
    world.heartbeat(unasked_stop=world.commit_number + 1)
    world.settle()
    assert world.running() == before
