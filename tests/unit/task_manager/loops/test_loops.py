"""The loops of a container in a cell in memory: heartbeats with and without a Shard Manager, specs and reports."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.control.errors import TerminalError
from penstock.tasks.dimensions import CPU
from penstock.wire.cluster import HeartbeatAnswer
from services.task_manager.specs.spec_cache import updated
from tests.support.memory.specs import MemoryTaskService
from tests.support.task_manager.loops import BOTH, CONTAINER, JOB, SETTINGS, Loops, commit
from tests.support.task_manager.world import SHARDS


@pytest.fixture
def loops(tmp_path: Path) -> Loops:
    return Loops(tmp_path)


def test_tasks_run_on_while_everything_else_is_down(loops: Loops) -> None:
    """
    1. A heartbeat is answered and specs come: tasks run.
    2. The Shard Manager and the Task Service go down: the container renews its own lease row, for five minutes.
    3. The Shard Manager comes back: nothing was stopped meanwhile.
    """
    loops.begin()
    world = loops.world
    starts = dict(world.hosts.running())
    loops.only_down(loops.shard_manager, loops.task_service)
    for _ in range(30):
        world.clock.seconds += loops.heartbeats.step()
        assert loops.memory.renewed_at[CONTAINER] == world.clock.seconds - SETTINGS.heartbeat_seconds
        assert loops.specs.step() == SETTINGS.retry_seconds
        world.settle()
    loops.only_down()
    assert loops.heartbeats.step() == SETTINGS.heartbeat_seconds
    assert world.hosts.running() == starts


def test_without_shard_manager_and_store_the_lease_runs_out(loops: Loops) -> None:
    """
    1. Tasks run; the Shard Manager and the store are down: after 40 s everything stops.
    2. The store comes back: the container takes the place of its own former life, and its tasks start again.
    """
    loops.begin()
    world, before = loops.world, loops.epochs()
    loops.only_down(loops.shard_manager, loops.store)
    for _ in range(30):
        world.clock.seconds += loops.heartbeats.step()
        world.settle()
    assert world.running() == set()
    loops.only_down(loops.shard_manager)
    loops.beat()
    assert loops.epochs().keys() == before.keys()
    assert min(loops.epochs().values()) > max(before.values())


def test_whatever_the_call_of_the_shard_manager_breaks_by_the_store_renews_the_lease(
    loops: Loops, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as an error of the own files, or a bug: tasks run on past the lease that the Shard Manager gave."""
    loops.begin()
    world = loops.world
    for error in (TerminalError("certificate and key do not fit"), OSError("no file"), ValueError("a bug")):

        def breaks(_: object, error: Exception = error) -> HeartbeatAnswer:
            raise error

        monkeypatch.setattr(loops.shard_manager, "heartbeat", breaks)
        until = world.clock.seconds + 60.0
        while world.clock.seconds < until:
            world.clock.seconds += loops.heartbeats.step()
            world.settle()
        assert world.running() == BOTH


def test_a_life_that_the_store_calls_lost_stops(loops: Loops) -> None:
    """
    1. Tasks run; the Shard Manager is down, and the row names another life.
    2. The tasks stop at once, long before the lease would have run out.
    """
    loops.begin()
    loops.only_down(loops.shard_manager)
    loops.memory.members[CONTAINER] = loops.memory.members[CONTAINER]._replace(incarnation="another")
    loops.beat()
    assert loops.world.running() == set()


def test_a_restarted_task_manager_needs_neither_service(loops: Loops, tmp_path: Path) -> None:
    """
    1. A first life runs tasks; then it is gone, and so are the Shard Manager and the Task Service.
    2. The second life has the snapshot from the disk, and takes the first one's place in the store: tasks run, under
       a new epoch.
    3. It may not before the store says so.
    """
    loops.begin()
    before = loops.epochs()
    second = Loops(tmp_path, loops.memory, life="second")
    second.only_down(second.shard_manager, second.task_service, second.store)
    second.beat()
    assert second.world.running() == set()
    second.only_down(second.shard_manager, second.task_service)
    second.beat()
    assert second.epochs().keys() == BOTH
    assert min(second.epochs().values()) > max(before.values())


def test_a_life_that_begins_by_the_store_starts_nothing_from_specs_older_than_it(loops: Loops) -> None:
    """
    1. A container's lease runs out, and meanwhile its job is committed anew: a stop of it is not waited for by name.
    2. It takes the place of its former life in the store: its specs are of before that, and it starts nothing.
    3. The specs of that commit come: its tasks run.
    """
    loops.begin()
    world = loops.world
    world.clock.seconds += 60
    world.settle()
    assert world.running() == set()
    loops.only_down(loops.shard_manager)
    commit(loops.memory, 2)
    loops.beat()
    assert world.container.summary().shards.keys() == set(range(SHARDS))
    assert world.running() == set()
    loops.specs.step()
    world.settle()
    assert world.running() == BOTH


def test_a_container_that_nobody_knows_does_nothing(loops: Loops) -> None:
    """
    1. A first life with an empty disk and no Shard Manager: it has no lease, and asks again soon.
    """
    loops.only_down(loops.shard_manager)
    assert loops.heartbeats.step() == SETTINGS.retry_seconds
    assert loops.world.container.summary().lease_seconds_left == 0


def test_specs_are_fetched_in_full_once_and_by_deltas_from_then_on(loops: Loops) -> None:
    """1. Deltas for minutes. 2. A process that has them on disk asks for deltas alone."""
    for _ in range(9):
        loops.specs.step()
    assert loops.task_service.asked == ["full", *["delta"] * 8]


def test_specs_that_differ_by_their_digest_are_fetched_in_full(loops: Loops) -> None:
    """
    1. A row is changed by hand: no commit says so, but the digest in the next delta does.
    2. A full snapshot follows, within a minute.
    3. A Task Service with whose digests nothing ever agrees is asked for everything once a minute at most.
    """
    loops.specs.step()
    before = loops.memory.running[JOB]
    by_hand = json.loads(before.row.config) | {"priority": 5}
    loops.memory.running[JOB] = replace(before, row=before.row._replace(config=json.dumps(by_hand).encode()))
    loops.task_service._templates = None
    loops.specs.step()
    differs_at = loops.world.clock.seconds
    fetch_in_full(loops)
    assert loops.world.clock.seconds <= differs_at + SETTINGS.full_spread_seconds
    loops.specs.step()
    assert loops.task_service.asked[-1] == "delta"
    assert loops.specs_here().jobs[JOB].template.config.priority == 5
    loops.task_service.lies = True
    loops.task_service.asked.clear()
    loops.specs.step()
    fetch_in_full(loops)
    for _ in range(3):
        before_at = loops.world.clock.seconds
        fetch_in_full(loops)
        waited = loops.world.clock.seconds - before_at
        most = SETTINGS.delta_wait_seconds + SETTINGS.full_spread_seconds
        assert SETTINGS.full_fetch_seconds <= waited <= most


def test_containers_that_find_a_difference_together_fetch_in_full_one_after_the_other(tmp_path: Path) -> None:
    """As after an upgrade that changes every digest. At a start without specs none waits."""
    waited = []
    for number in range(60):
        loops = Loops(tmp_path / str(number), life=str(number))
        loops.specs.step()
        assert loops.task_service.asked == ["full"]
        loops.task_service.lies = True
        loops.specs.step()
        differs_at = loops.world.clock.seconds
        fetch_in_full(loops)
        waited.append(loops.world.clock.seconds - differs_at)
    assert max(sum(low <= each < low + 10.0 for each in waited) for low in range(0, 60, 10)) <= 25
    assert max(waited) <= SETTINGS.full_spread_seconds


def test_a_difference_that_a_delta_mends_fetches_nothing_in_full(loops: Loops) -> None:
    loops.specs.step()
    loops.task_service.lies = True
    loops.specs.step()
    loops.task_service.lies = False
    for _ in range(9):
        loops.specs.step()
    assert loops.task_service.asked == ["full", *["delta"] * 10]


def fetch_in_full(loops: Loops) -> None:
    """Fetches until it is one in full."""
    loops.task_service.asked.clear()
    while "full" not in loops.task_service.asked:
        loops.specs.step()


def test_an_older_snapshot_changes_nothing_whoever_sends_it(loops: Loops) -> None:
    """
    1. The specs are at commit 9. 2. The store goes back to commit 4 and nobody says that it was restored: no answer,
    neither in full nor as a delta, is taken.
    """
    commit(loops.memory, 9)
    loops.specs.step()
    commit(loops.memory, 4, job="old")
    assert loops.specs.step() == SETTINGS.retry_seconds
    snapshot = MemoryTaskService(loops.memory).full()
    assert snapshot.commit_number == 4
    assert updated(loops.specs_here(), snapshot) is loops.specs_here()
    assert loops.world.container.summary().commit_number == 9


def test_another_incarnation_of_the_store_is_a_fresh_start(loops: Loops) -> None:
    """
    1. Tasks run. 2. The store is restored: its commits count again from a lower number, and mean other rows.
    3. Tasks stop, shards and versions are forgotten, and another life joins. 4. It runs what the new store says.
    """
    loops.begin()
    former = loops.world.container.summary()
    loops.memory.running.pop(JOB)
    commit(loops.memory, former.commit_number or 0, job="other")
    loops.memory.incarnation = "second"
    loops.specs.step()
    now = loops.world.container.summary()
    assert (now.lease_seconds_left, now.shards, now.version) == (0, {}, 0)
    assert now.incarnation != former.incarnation
    assert loops.specs_here().jobs.keys() == {"other"}
    loops.world.settle()
    assert loops.world.running() == set()
    loops.beat()
    assert {name.partition("/")[0] for name in loops.world.running()} == {"other"}


def test_reports_are_of_the_newest_state(loops: Loops) -> None:
    """
    1. The Task Service is down: a report fails, and is not kept.
    2. It is back: the next report is what runs by then.
    """
    loops.only_down(loops.task_service)
    assert loops.reports.step() == SETTINGS.retry_seconds
    assert CONTAINER not in loops.memory.tasks
    loops.only_down()
    loops.begin()
    loops.reports.step()
    assert len(loops.reported()) == 2


def test_only_what_changed_is_reported(loops: Loops) -> None:
    """
    1. All tasks. 2. Nothing new: told after some seconds.
    3. The store has lost its place, and the rows: all tasks, at once.
    """
    loops.begin()
    loops.reports.step()
    assert loops.memory.reports[CONTAINER].base == 1
    assert loops.reports.step() == SETTINGS.report_seconds
    assert loops.memory.reports[CONTAINER].number == 1
    loops.world.clock.seconds += SETTINGS.report_quiet_seconds
    loops.reports.step()
    assert (loops.memory.reports[CONTAINER].number, loops.memory.reports[CONTAINER].base) == (2, 1)
    loops.memory.want_full_report(CONTAINER)
    loops.memory.tasks[CONTAINER] = ()
    loops.world.clock.seconds += SETTINGS.report_quiet_seconds
    assert loops.reports.step() == 0.0
    assert loops.reports.step() == SETTINGS.report_seconds
    assert {f"{task.job}/{task.index}" for task in loops.reported()} == BOTH


def test_a_load_is_told_until_the_task_service_has_taken_it(loops: Loops) -> None:
    """
    1. A host measures a task for a minute; the Task Service is down.
    2. It comes back: the load is told. 3. The next report has nothing new of it. 4. A task that moved away has no load.
    """
    loops.begin()
    world = loops.world
    for _ in range(7):
        world.host_of("flights/0").measure({"flights/0": {CPU: 0.5}, "flights/9": {CPU: 9.0}})
        world.clock.seconds += 10
        loops.heartbeats.step()
    loops.only_down(loops.task_service)
    loops.reports.step()
    loops.only_down()
    loops.reports.step()
    assert [task.load for task in loops.reported()] == [{CPU: 0.5}, None]
    loops.reports.step()
    assert loops.task_service.told == ()
    world.container.drop(world.order(loops.memory.shards_of(CONTAINER)))
    world.settle()
    assert world.container.report().tasks == ()
