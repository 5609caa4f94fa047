"""A container whose specs come, change and go."""

from __future__ import annotations

import pytest

from penstock.model.reports import TaskState
from penstock.spark.channel import Live, Start, Stop
from penstock.tasks.spec import Before
from tests.support.task_manager.world import World, all_shards, running_world, template


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


def test_a_restart_change_stops_first_and_starts_then() -> None:
    """
    1. A new trigger interval: both tasks are stopped; nothing is started before they have.
    2. They run with the new revision, on the same host.
    """
    world = running_world(template())
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
    world = running_world(template())
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
    world = running_world(template())
    (host,) = world.hosts.alive()
    sent = len(host.sent)
    world.jobs(template(revision=2, owner="someone"))
    world.settle()
    assert {report.revision for report in world.reports().values()} == {2}
    assert len(host.sent) == sent


def test_a_wave_restarts_its_tasks_and_no_other() -> None:
    """
    1. Two tasks run version 1 of a package.
    2. Version 2 goes out to the first: it alone is stopped.
    3. The second wave: now the other one is.
    """
    old, new = (template(package={"name": "flights", "version": version}) for version in ("1", "2"))
    new = new.model_copy(update={"revision": 2, "commit_number": 2})
    before = Before(upgraded=1, revision=1, restarts=0, config=old.config)
    world = World().jobs(old)
    world.heartbeat(all_shards())
    world.settle()
    lives = {name: start.id for name, start in world.hosts.running().items()}
    world.jobs(new.model_copy(update={"before": before}))
    world.settle()
    first = {name: start.id for name, start in world.hosts.running().items()}
    assert (first["flights/0"] != lives["flights/0"], first["flights/1"] == lives["flights/1"]) == (True, True)
    world.jobs(new)
    world.settle()
    second = {name: start.id for name, start in world.hosts.running().items()}
    assert (second["flights/0"] == first["flights/0"], second["flights/1"] != first["flights/1"]) == (True, True)
    assert {start.spec.config.package.version for start in world.hosts.running().values()} == {"2"}


@pytest.mark.parametrize("change", [{"generation": 2}, {"restarts": 1}, {"task_count": 4}])
def test_another_layout_restarts_tasks(change: dict[str, int]) -> None:
    """
    1. A generation, a restart that was asked for, or other key groups: every task runs by the new spec.
    """
    world = running_world(template())
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
    world = running_world(template("stays"), template("stops"), template("goes"))
    world.jobs(template("stays"), template("stops", revision=2, desired_state="stopped"))
    world.settle()
    assert world.running() == {"stays/0", "stays/1"}
    assert world.reports().keys() == {"stays/0", "stays/1"}


def test_shutdown_stops_tasks_and_starts_nothing() -> None:
    """
    1. Tasks run; the process is asked to end: they stop, and no warm host is kept up.
    """
    world = running_world(template())
    world.container.begin_shutdown()
    world.settle()
    assert world.container.await_idle(0)
    world.container.kill_hosts()
    world.settle()
    assert world.hosts.alive() == []
    assert world.reports() == {}
