"""A host whose JVM hangs says nothing: what its tasks do is unknown soon, and later they run on another host."""

from __future__ import annotations

import pytest

from penstock.model.reports import TaskProgress
from services.task_manager.decide.actions import EvacuateHost, KeepHost, KillHost
from services.task_manager.decide.evacuation import bad_hosts
from services.task_manager.decide.model import HostPhase, Limits, Observed
from tests.support.task_manager.fake_hosts import FakeHost
from tests.support.task_manager.world import World, running_world, template
from tests.unit.task_manager.decide.test_reconcile import NOW, SPEC, host, observed

TASKS = {"flights/0", "flights/1"}
WELL = TaskProgress(
    batch_id=7,
    backlog_records=0,
    processed_rows_per_second=9.0,
    state_rows=4,
    input_problems={"malformed_records": "x"},
)


def hanging_world() -> tuple[World, FakeHost]:
    """Two tasks that run well share a host. Then it says nothing more."""
    world = running_world(template())
    hanging = world.host_of("flights/0")
    hanging.speak(dict.fromkeys(TASKS, WELL))
    hanging.stuck = True
    return world, hanging


def test_what_its_tasks_do_is_unknown_soon() -> None:
    """1. A short silence says nothing. 2. A longer one is told: the backlog of before is no backlog of now."""
    world, hanging = hanging_world()
    world.wait(5.0)
    assert world.reports()["flights/0"].progress == WELL
    world.wait(5.0)
    told = world.reports()["flights/1"].progress
    unknown = {"backlog_records": None, "processed_rows_per_second": None, "silent_seconds": 10.0}
    assert told == WELL.model_copy(update=unknown)
    assert hanging.tasks.keys() == TASKS
    hanging.stuck = False
    hanging.speak({"flights/0": WELL})
    assert world.reports()["flights/0"].progress == WELL


def test_an_idle_task_without_progress_is_not_silent_while_its_host_speaks() -> None:
    world = running_world(template())
    world.wait(200.0)
    assert world.reports()["flights/0"].progress is None
    assert world.running() == TASKS


def test_its_tasks_move_and_it_is_killed() -> None:
    """1. Another host starts after a minute. 2. The tasks are told to stop there, in vain. 3. At their deadline the
    host is killed. They run on the other one, and no crash is counted."""
    world, hanging = hanging_world()
    world.wait(55.0)
    assert world.hosts.alive() == [hanging]
    world.wait(5.0)
    (fresh,) = [other for other in world.hosts.alive() if other is not hanging]
    world.settle()
    assert (hanging.how, hanging.tasks.keys()) == (None, TASKS)
    world.wait(30.0)
    world.settle()
    assert hanging.how is not None
    assert fresh.tasks.keys() == TASKS
    assert world.container.summary().totals.get("task_crashes", 0) == 0


def test_one_that_is_heard_again_stays() -> None:
    """After a long collection of garbage, say, while the other host starts."""
    world, hanging = hanging_world()
    world.wait(60.0)
    hanging.stuck = False
    world.wait(5.0)
    assert world.container.summary().observed.hosts[hanging.name].phase is HostPhase.READY
    world.settle()
    assert hanging.tasks.keys() == TASKS


def test_an_idle_one_is_replaced() -> None:
    """It would be given the next task."""
    world = running_world()
    (idle,) = world.hosts.alive()
    idle.stuck = True
    world.wait(65.0)
    world.settle()
    assert idle.how is not None
    assert [other.ready for other in world.hosts.alive()] == [True]


LIMITS = Limits(host_hung_seconds=60.0, evacuate_seconds=120.0)
WHY = "its JVM has said nothing for 60 s"
LEFT = [EvacuateHost("h", WHY, NOW + 120.0)]


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        ({"h": host(heard_at=NOW - 59)}, []),
        ({"h": host(heard_at=NOW - 60)}, LEFT),
        ({"h": host(phase=HostPhase.LEAVING, heard_at=NOW - 70)}, []),
        ({"h": host(phase=HostPhase.LEAVING, heard_at=NOW - 1)}, [KeepHost("h")]),
        ({"h": host(phase=HostPhase.STARTING, since=NOW - 70)}, []),
        ({"h": host(phase=HostPhase.ENDING, heard_at=NOW - 70)}, []),
        ({"h": host(heard_at=NOW - 1), "i": host("i", heard_at=NOW - 60)}, [KillHost("i", WHY)]),
        ({"h": host(heard_at=NOW - 62), "i": host("i", heard_at=NOW - 61)}, LEFT),
        ({"h": host(phase=HostPhase.LEAVING, heard_at=NOW - 99), "i": host("i", heard_at=NOW - 61)}, []),
    ],
)
def test_hosts_that_hang_are_left_one_after_the_other(hosts: dict[str, object], expected: list[object]) -> None:
    """A task runs on `h`, none on `i`. When both are silent the machine may be to blame."""
    there = Observed({SPEC.task_id: observed().tasks[SPEC.task_id]}, hosts)
    assert list(bad_hosts(there, LIMITS, NOW)) == expected


def test_a_silence_is_longer_than_the_time_between_two_words() -> None:
    """A host that is asked to tell its progress rarely is not taken for hung."""
    usual, rare = Limits().for_hosts(1.0), Limits().for_hosts(30.0)
    assert (usual.host_silent_seconds, usual.host_hung_seconds) == (10.0, 60.0)
    assert (rare.host_silent_seconds, rare.host_hung_seconds) == (300.0, 600.0)
