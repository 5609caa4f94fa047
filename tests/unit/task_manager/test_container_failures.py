"""A container whose tasks and hosts fail; which hosts it keeps."""

from __future__ import annotations

from penstock.model.reports import TaskState
from penstock.spark.channel import Start
from services.task_manager.decide.model import Limits
from tests.support.task_manager.world import World, all_shards, running_world, shards_of, template

BOTH = {"flights/0", "flights/1"}


def test_a_host_that_dies_is_replaced_and_its_tasks_resume_at_once() -> None:
    """
    1. The shared host dies: its tasks are crashed, the isolated one runs on.
    2. Without any wait a new host is started and the tasks with it; the report counts one crash.
    3. After a minute of health the crash is forgotten.
    """
    world = running_world(template(), template("alone", isolation="process", task_count=1))
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
    world = running_world(template(), template("alone", isolation="process", task_count=1))
    for name in ("flights/0", "alone/0"):
        world.host_of(name).die("out of memory", out_of_memory=True)
    world.container.tick()
    reports = world.reports()
    assert reports["alone/0"].out_of_memory
    assert not reports["flights/0"].out_of_memory
    assert "out of memory" in (reports["flights/0"].error or "")
    assert (reports["alone/0"].error_class, reports["flights/0"].error_class) == ("out_of_memory", "host")


def test_a_task_that_crashes_again_and_again_is_tried_less_and_less_often() -> None:
    """
    1. The first crash: it is started again at once.
    2. The second: it waits, and is reported as crashed with its error.
    3. The pauses grow; a change of the job ends the pause.
    """
    world = running_world(template(task_count=1))
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


def test_a_reply_to_a_former_life_of_a_task_is_not_taken_for_the_new_one() -> None:
    """
    1. A task is told to stop; before it does, it ends by itself, and its change makes it start again.
    2. The reply to the old stop comes after the new start: the new task stays.
    """
    world = running_world(template(task_count=1))
    host = world.host_of("flights/0")
    world.jobs(template(task_count=1, revision=2, trigger_interval_seconds=1.0))
    world.container.tick()
    host.end_task("flights/0")
    world.container.tick()
    assert world.reports()["flights/0"].state is TaskState.STARTING
    world.settle()
    assert world.running() == {"flights/0"}
    assert world.reports()["flights/0"].state is TaskState.RUNNING


def test_crashes_in_a_row_are_those_of_one_package() -> None:
    """
    1. A task crashes twice: the report says so.
    2. It is given another package: from its start on nothing is counted against that, until it crashes itself.
    """
    world = World()
    world.jobs(template(task_count=1))
    world.heartbeat(all_shards())
    for crashes in (1, 2):
        world.settle()
        world.host_of("flights/0").end_task("flights/0")
        assert world.reports()["flights/0"].crashes == crashes
        world.wait(5.0)
    world.jobs(template(task_count=1, revision=2, trigger_interval_seconds=1.0))
    world.settle()
    assert (world.reports()["flights/0"].revision, world.reports()["flights/0"].crashes) == (2, 0)
    world.host_of("flights/0").end_task("flights/0")
    assert world.reports()["flights/0"].crashes == 1


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
    1. A host hangs in its start: after the time for that it is killed and another one started. Why is told.
    """
    world = World(Limits(host_start_seconds=30.0))
    world.container.tick()
    (hanging,) = world.hosts.alive()
    hanging.stuck = True
    world.wait(31.0)
    assert hanging.how is not None
    (failure,) = world.container._state.observed.host_failures.values()
    assert failure.error.startswith("it was not ready in 30 s")
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
