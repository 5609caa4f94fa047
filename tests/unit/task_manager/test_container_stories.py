"""Stories of a container: what it is told, what then runs, and what it says about it."""

from __future__ import annotations

import pytest

from penstock.control.errors import Conflict
from penstock.spark.channel import Live, Start, Stop
from penstock.wire.cluster import HeartbeatAnswer, TaskState
from services.task_manager.model import Limits
from tests.support.task_manager import SHARDS, World, all_shards, shards_of, template

BOTH = {"flights/0", "flights/1"}


def test_tasks_of_owned_shards_start_and_are_reported() -> None:
    """
    1. A warm host is started before anything is known.
    2. Specs come: nothing starts, for there is no lease.
    3. A heartbeat is answered with all shards: the tasks start on the warm host, under the shards' epoch.
    4. The report says what runs, at which commit and assignment version.
    """
    world = World()
    world.settle()
    assert [host.ready for host in world.hosts.alive()] == [True]
    world.jobs(template())
    world.settle()
    assert world.running() == set()
    world.heartbeat(all_shards(epoch=7))
    world.settle()
    assert {name: start.epoch for name, start in world.hosts.running().items()} == {"flights/0": 7, "flights/1": 7}
    assert len(world.hosts.all) == 1
    batch = world.container.report()
    assert (batch.commit_number, batch.version) == (1, 7)
    assert {report.state for report in batch.tasks} == {TaskState.RUNNING}
    assert {report.epoch for report in batch.tasks} == {7}


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
    world = World()
    world.jobs(template())
    world.heartbeat(all_shards())
    world.settle()
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
    world = World()
    world.jobs(template())
    world.heartbeat(all_shards())
    world.settle()
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
        world = World()
        world.jobs(template())
        world.heartbeat(all_shards())
        world.settle()
        (host,) = world.hosts.alive()
        host.stuck = True
        if ends_itself:
            host.die("lease lost", lease_ran_out=True)
        world.clock.seconds += 100.0
        world.container.tick()
        measured.append(world.container.summary().double_run_seconds)
    assert measured == [0.0, pytest.approx(50.0)]


def test_an_answer_that_waited_in_a_queue_cannot_revive_a_lease() -> None:
    """
    1. A heartbeat is sent; the process sleeps for 50 s; then its answer is read.
    2. The lease had run out, so it is another life: the answer is for nobody.
    """
    world = World()
    world.jobs(template())
    world.heartbeat(all_shards())
    world.settle()
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
    world = World()
    world.jobs(template())
    world.heartbeat(all_shards())
    world.settle()
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
    world = World()
    world.jobs(template())
    world.heartbeat(all_shards())
    world.settle()
    (shard,) = shards_of("flights", [0])
    answers = world.container.drop(world.order({shard: 1}))
    assert answers.tasks == {shard: ("flights/0",)}
    world.container.tick()
    held = world.container.heartbeat_request()
    assert held is not None
    assert (held.held.get(shard), held.dropped) == (1, {})
    assert world.container.await_stopped(answers, 0).tasks == {}
    world.settle()
    assert world.container.await_stopped(answers, 0).tasks == {shard: ("flights/0",)}
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
    world = World()
    world.jobs(template("alone", isolation="process", task_count=1), template("shared", task_count=1))
    world.heartbeat(all_shards())
    world.settle()
    stuck = world.host_of("alone/0")
    stuck.stuck = True
    (shard,) = shards_of("alone", [0])
    answers = world.container.drop(world.order({shard: 1}, deadline_seconds=3.0))
    world.container.tick()
    world.clock.seconds += 2.9
    world.container.tick()
    assert stuck.how is None
    world.clock.seconds += 0.1
    world.settle()
    assert stuck.how is not None
    assert world.container.await_stopped(answers, 0).tasks.keys() == {shard}
    assert world.running() == {"shared/0"}


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
    world = World()
    world.jobs(template())
    world.heartbeat(all_shards())
    world.settle()
    kept = shards_of("flights", [1])
    (lost,) = shards_of("flights", [0]).keys() - kept.keys()
    world.version = 2
    world.heartbeat(kept)
    world.settle()
    assert world.running() == {"flights/1"}
    request = world.heartbeat(kept)
    assert request is not None
    assert request.dropped[lost] == 1


def test_a_restart_change_stops_first_and_starts_then() -> None:
    """
    1. A new trigger interval: both tasks are stopped; nothing is started before they have.
    2. They run with the new revision, on the same host.
    """
    world = World()
    world.jobs(template())
    world.heartbeat(all_shards())
    world.settle()
    (host,) = world.hosts.alive()
    world.jobs(template(revision=2, trigger_interval_seconds=1.0))
    world.container.tick()
    assert [type(command) for command in host.sent[-2:]] == [Stop, Stop]
    world.settle()
    assert {start.spec.revision for start in world.hosts.running().values()} == {2}
    assert len(world.hosts.all) == 1


def test_a_live_change_is_applied_and_reported_once_confirmed() -> None:
    """
    1. A new priority: a Live command goes out; the report still has the old revision.
    2. The host confirms: the report has the new one, and nothing was restarted.
    """
    world = World()
    world.jobs(template())
    world.heartbeat(all_shards())
    world.settle()
    (host,) = world.hosts.alive()
    world.jobs(template(revision=2, priority=5))
    world.container.tick()
    assert [type(command) for command in host.sent[-2:]] == [Live, Live]
    assert {report.revision for report in world.reports().values()} == {1}
    world.settle()
    assert {report.revision for report in world.reports().values()} == {2}
    assert sum(isinstance(command, Start) for command in host.sent) == 2


def test_bookkeeping_changes_are_only_noted() -> None:
    """
    1. A new owner: no command is sent, and the new revision is reported.
    """
    world = World()
    world.jobs(template())
    world.heartbeat(all_shards())
    world.settle()
    (host,) = world.hosts.alive()
    sent = len(host.sent)
    world.jobs(template(revision=2, owner="someone"))
    world.settle()
    assert {report.revision for report in world.reports().values()} == {2}
    assert len(host.sent) == sent


@pytest.mark.parametrize("change", [{"generation": 2}, {"restarts": 1}, {"task_count": 4}])
def test_another_layout_restarts_tasks(change: dict[str, int]) -> None:
    """
    1. A generation, a restart that was asked for, or other key groups: every task runs by the new spec.
    """
    world = World()
    world.jobs(template())
    world.heartbeat(all_shards())
    world.settle()
    expected = template(revision=2, **change)
    world.jobs(expected)
    world.settle()
    assert world.running() == {f"flights/{index}" for index in range(expected.config.task_count)}
    for start in world.hosts.running().values():
        assert (start.spec.generation, start.spec.restarts) == (expected.generation, expected.restarts)


def test_stopped_and_deleted_jobs_stop() -> None:
    """
    1. One job is set to stopped, another is no longer there: neither runs or is reported.
    """
    world = World()
    world.jobs(template("stays"), template("stops"), template("goes"))
    world.heartbeat(all_shards())
    world.settle()
    world.jobs(template("stays"), template("stops", revision=2, desired_state="stopped"))
    world.settle()
    assert world.running() == {"stays/0", "stays/1"}
    assert world.reports().keys() == {"stays/0", "stays/1"}


def test_a_host_that_dies_is_replaced_and_its_tasks_resume_at_once() -> None:
    """
    1. The shared host dies: its tasks are crashed, the isolated one runs on.
    2. Without any wait a new host is started and the tasks with it; the report counts one crash.
    3. After a minute of health the crash is forgotten.
    """
    world = World()
    world.jobs(template(), template("alone", isolation="process", task_count=1))
    world.heartbeat(all_shards())
    world.settle()
    world.host_of("flights/0").die("killed")
    world.container.tick()
    assert world.reports()["flights/0"].state is TaskState.CRASHED
    assert world.running() == {"alone/0"}
    world.settle()
    assert world.running() == BOTH | {"alone/0"}
    assert (world.reports()["flights/0"].crashes, world.reports()["alone/0"].crashes) == (1, 0)
    world.wait(61.0)
    assert world.reports()["flights/0"].crashes == 0


def test_out_of_memory_is_told_only_of_a_task_that_had_the_host_for_itself() -> None:
    """
    1. A shared host with two tasks and an isolated one run out of memory.
    2. The isolated task is said to be out of memory; of the others nobody knows which it was.
    """
    world = World()
    world.jobs(template(), template("alone", isolation="process", task_count=1))
    world.heartbeat(all_shards())
    world.settle()
    for name in ("flights/0", "alone/0"):
        world.host_of(name).die("out of memory", out_of_memory=True)
    world.container.tick()
    reports = world.reports()
    assert reports["alone/0"].out_of_memory
    assert not reports["flights/0"].out_of_memory
    assert "out of memory" in (reports["flights/0"].error or "")


def test_a_task_that_crashes_again_and_again_is_tried_less_and_less_often() -> None:
    """
    1. The first crash: it is started again at once.
    2. The second: it waits, and is reported as crashed with its error.
    3. The pauses grow; a change of the job ends the pause.
    """
    world = World()
    world.jobs(template(task_count=1))
    world.heartbeat(all_shards())
    world.settle()
    world.host_of("flights/0").end_task("flights/0")
    world.settle()
    assert world.running() == {"flights/0"}
    pauses = []
    for _ in range(4):
        world.host_of("flights/0").end_task("flights/0")
        died_at = world.clock.seconds
        world.settle()
        assert world.reports()["flights/0"].error == "boom"
        while not world.running():
            world.clock.seconds += 0.25
            world.heartbeat()
            world.settle()
        pauses.append(world.clock.seconds - died_at)
    assert pauses == sorted(pauses)
    assert pauses[-1] > 4 * pauses[0]
    world.host_of("flights/0").end_task("flights/0")
    world.settle()
    assert world.running() == set()
    world.jobs(template(task_count=1, revision=2, trigger_interval_seconds=9.0))
    world.settle()
    assert world.running() == {"flights/0"}


def test_a_broken_task_waits_from_its_first_failure_on() -> None:
    """
    1. A start is refused as broken: the task is reported as crashed with the reason and not tried for a while.
    2. The other task runs.
    """
    world = World()
    world.jobs(template())
    world.settle()
    (host,) = world.hosts.alive()
    host.refuse["flights/0"] = "broken_task"
    world.heartbeat(all_shards())
    world.settle()
    assert world.running() == {"flights/1"}
    assert world.reports()["flights/0"].error == "is broken_task"
    starts = len([command for command in host.sent if isinstance(command, Start)])
    world.wait(5.0)
    assert len([command for command in host.sent if isinstance(command, Start)]) == starts


def test_a_fenced_task_gives_its_shard_up_until_it_is_given_anew() -> None:
    """
    1. A task ends as fenced: a newer owner of the shard exists, whatever this container was told.
    2. The shard is dropped; an answer that still lists it under the same epoch does not bring it back.
    3. Under a new epoch the task starts.
    """
    world = World()
    world.jobs(template())
    world.heartbeat(all_shards())
    world.settle()
    (shard,) = shards_of("flights", [0])
    world.host_of("flights/0").end_task("flights/0", kind="fenced")
    world.settle()
    told = world.heartbeat(all_shards())
    assert told is not None
    assert told.dropped[shard] == 1
    assert shard not in told.held
    world.wait(60.0)
    world.settle()
    assert "flights/0" not in world.running()
    world.heartbeat({**all_shards(), shard: 2})
    world.settle()
    assert world.hosts.running()["flights/0"].epoch == 2


def test_a_shard_under_a_new_epoch_restarts_its_tasks() -> None:
    """
    1. An answer has the same shards under a higher epoch: another container may have run them in between.
    2. The tasks are stopped and started under the new one.
    """
    world = World()
    world.jobs(template())
    world.heartbeat(all_shards())
    world.settle()
    world.heartbeat(all_shards(epoch=3))
    world.settle()
    assert {start.epoch for start in world.hosts.running().values()} == {3}


def test_a_reply_to_a_former_life_of_a_task_is_not_taken_for_the_new_one() -> None:
    """
    1. A task is told to stop; before it does, it ends by itself, and its change makes it start again.
    2. The reply to the old stop comes after the new start: the new task stays.
    """
    world = World()
    world.jobs(template(task_count=1))
    world.heartbeat(all_shards())
    world.settle()
    host = world.host_of("flights/0")
    world.jobs(template(task_count=1, revision=2, trigger_interval_seconds=1.0))
    world.container.tick()
    host.end_task("flights/0")
    world.container.tick()
    assert world.reports()["flights/0"].state is TaskState.STARTING
    world.settle()
    assert world.running() == {"flights/0"}
    assert world.reports()["flights/0"].state is TaskState.RUNNING


def test_hosts_that_do_not_start_are_tried_less_often_and_reported() -> None:
    """
    1. No process can be made: the first retry is at once, the next ones wait; tasks say why they do not run.
    2. Processes can be made again: everything runs.
    """
    world = World(Limits(warm_hosts=0))
    world.hosts.broken = True
    world.jobs(template())
    world.heartbeat(all_shards())
    for _ in range(5):
        world.container.tick()
    assert world.container.summary().totals["host_starts"] == 2
    assert "no more processes" in (world.reports()["flights/0"].error or "")
    world.hosts.broken = False
    world.wait(5.0)
    world.settle()
    assert world.running() == BOTH


def test_a_host_that_is_never_ready_is_replaced() -> None:
    """
    1. A host hangs in its start: after the time for that it is killed and another one started.
    """
    world = World(Limits(host_start_seconds=30.0))
    world.container.tick()
    (hanging,) = world.hosts.alive()
    hanging.stuck = True
    world.wait(31.0)
    assert hanging.how is not None
    world.wait(5.0)
    assert len(world.hosts.all) > 1


def test_shared_hosts_fill_up_and_idle_ones_end() -> None:
    """
    1. Five tasks with two places a host: three hosts.
    2. The tasks go: after the idle time only the warm host is left.
    """
    world = World(Limits(tasks_per_host=2, idle_host_seconds=60.0))
    world.jobs(template(task_count=5))
    world.heartbeat(all_shards())
    world.settle()
    assert sorted(len(host.tasks) for host in world.hosts.alive()) == [1, 2, 2]
    world.jobs()
    world.settle()
    assert len(world.hosts.alive()) == 3
    world.wait(61.0)
    world.settle()
    assert len(world.hosts.alive()) == 1


def test_packages_and_isolation_part_hosts() -> None:
    """
    1. Jobs of two packages and an isolated one: each has its own host, the isolated one with its memory.
    """
    world = World()
    other = {"package": {"name": "pricing", "version": "2"}}
    alone = {"isolation": "process", "resources": {"memory_bytes": 2**30}}
    world.jobs(template("a", task_count=1), template("b", task_count=1, **other), template("c", task_count=1, **alone))
    world.heartbeat(all_shards())
    world.settle()
    hosts = {name: world.host_of(name) for name in ("a/0", "b/0", "c/0")}
    assert len({host.name for host in hosts.values()}) == 3
    assert hosts["b/0"].key.package == ("pricing", "2", "")
    assert (hosts["c/0"].key.isolated_task, hosts["c/0"].key.memory_bytes) == ("c/0", 2**30)


def test_shutdown_stops_tasks_and_starts_nothing() -> None:
    """
    1. Tasks run; the process is asked to end: they stop, and no warm host is kept up.
    """
    world = World()
    world.jobs(template())
    world.heartbeat(all_shards())
    world.settle()
    world.container.begin_shutdown()
    world.settle()
    assert world.container.await_idle(0)
    world.container.kill_hosts()
    world.settle()
    assert world.hosts.alive() == []
    assert world.reports() == {}
