"""The contract of `ShardStore`: who is in the cell and who owns what, under the epoch of a leader."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from penstock.control.errors import Conflict, Fenced, Unavailable
from penstock.model.alerts import AlertKind
from penstock.model.reports import TaskReport, TaskReportBatch, TaskState
from penstock.tasks.dimensions import CPU, DISK, MEMORY
from penstock.tasks.loads import JobTasks, TaskLoad
from penstock.tasks.ownership import DRAINING, OPEN, Avoidance, Member, Membership, Owner
from penstock.tasks.shards import SLOTS, Sharding
from services.shard_manager.placement.alerts import PlacementAlert
from services.shard_manager.store.owners import Change
from services.shard_manager.store.port import ShardStore
from tests.contract.conftest import SHARDS
from tests.contract.shard_store_forms import DRAIN_UNTIL, URL, MemoryForm, PostgresForm

FAIL_OVER_SECONDS = 60.0


@pytest.fixture(params=["postgres", "memory"])
def form(request: pytest.FixtureRequest) -> Any:
    if request.param == "postgres":
        return PostgresForm(request.getfixturevalue("engine"))
    return MemoryForm(request.getfixturevalue("memory"))


def member(name: str, incarnation: str = "one") -> Member:
    return Member(name, incarnation, f"http://{name}", "local", 1.0, 1, 1)


def join(store: ShardStore, epoch: int, name: str, incarnation: str = "one", *, empty: bool = True) -> Membership:
    return store.register(member(name, incarnation), empty=empty, above=-1, leader_epoch=epoch).membership


def own(store: ShardStore, epoch: int, container: str) -> dict[int, Owner]:
    """Gives every shard to a container."""
    owners = store.take_over(epoch).owners
    return store.record({shard: Change(container, owner.epoch) for shard, owner in owners.items()}, epoch).owners


def test_a_leader_takes_over_what_is_there(form: Any) -> None:
    epoch = form.elect("a")
    cell = form.store.take_over(epoch)
    assert (cell.facts.sharding.count, cell.members, cell.owners.keys()) == (SHARDS, {}, set(range(SHARDS)))
    assert {owner.container for owner in cell.owners.values()} == {None}
    assert form.store.leader_url() == URL


def test_a_change_is_seen_above_the_epoch_before_it_and_not_above_its_own(form: Any) -> None:
    epoch = form.elect("a")
    assert join(form.store, epoch, "c1") is Membership.NEW
    before = max(owner.epoch for owner in form.store.take_over(epoch).owners.values())
    recorded = own(form.store, epoch, "c1")
    assert form.store.read(before)[1:] == ({"c1": member("c1")}, recorded, 0, 0)
    assert form.store.read(max(owner.epoch for owner in recorded.values())).owners == {}


def test_a_change_of_a_shard_that_has_moved_on_changes_nothing(form: Any) -> None:
    epoch = form.elect("a")
    join(form.store, epoch, "c1")
    old = form.store.take_over(epoch).owners[0].epoch
    first = form.store.record({0: Change("c1", old)}, epoch).owners
    assert form.store.record({0: Change("c2", old)}, epoch).owners == {}
    assert form.store.read(-1).owners[0] == first[0]


def test_who_registers_is_new_restarted_or_refused(form: Any) -> None:
    """1. A newcomer. 2. Its next life keeps the shards under new epochs. 3. A life with shards in its hands is told
    nothing, and nothing changes."""
    epoch = form.elect("a")
    assert join(form.store, epoch, "c1") is Membership.NEW
    assert join(form.store, epoch, "c1") is Membership.UNCHANGED
    owned = own(form.store, epoch, "c1")
    newest = max(owner.epoch for owner in owned.values())
    decided, changed, *_ = form.store.register(member("c1", "two"), empty=True, above=newest, leader_epoch=epoch)
    assert decided is Membership.RESTARTED
    assert changed.keys() == owned.keys()
    assert {owner.container for owner in changed.values()} == {"c1"}
    assert join(form.store, epoch, "c1", "three", empty=False) is Membership.REFUSED
    assert form.store.read(-1).members == {"c1": member("c1", "two")}


def test_no_life_of_a_container_ends_its_drain(form: Any) -> None:
    """1. A container that joins is open. 2. It is drained. 3. It restarts, 4. is lost and comes back: still drained."""
    epoch = form.elect("a")
    join(form.store, epoch, "c1")
    assert form.store.read(-1).members["c1"].availability == OPEN
    form.drain("c1")
    drained = member("c1")._replace(availability=DRAINING, drain_until=DRAIN_UNTIL)
    assert form.store.read(-1).members == form.store.take_over(epoch).members == {"c1": drained}
    assert join(form.store, epoch, "c1", "two") is Membership.RESTARTED
    assert form.store.read(-1).members["c1"] == drained._replace(incarnation="two")
    assert form.store.fail_over({"c1": "two"}, {}, FAIL_OVER_SECONDS, epoch).lost == {"c1"}
    assert join(form.store, epoch, "c1", "three") is Membership.NEW
    assert form.store.read(-1).members["c1"] == drained._replace(incarnation="three")


def test_the_shards_of_a_lost_container_go_to_its_heirs(form: Any) -> None:
    """1. Of three candidates one renewed its row by itself and one has another life now. 2. Only the third is lost,
    and only its heirs inherit."""
    epoch = form.elect("a")
    for name in ("c1", "c2", "c3", "heir"):
        join(form.store, epoch, name)
    owners = form.store.take_over(epoch).owners
    given = {0: Change("c1", owners[0].epoch), 1: Change("c2", owners[1].epoch), 2: Change("c3", owners[2].epoch)}
    recorded = form.store.record(given, epoch).owners
    form.renew_by_itself("c2", "one")
    heirs = {f"c{shard + 1}": {shard: Change("heir", recorded[shard].epoch)} for shard in range(3)}
    candidates = {"c1": "one", "c2": "one", "c3": "zero"}
    assert form.store.silent(candidates, FAIL_OVER_SECONDS) == {"c1"}
    lost, inherited, _ = form.store.fail_over(candidates, heirs, FAIL_OVER_SECONDS, epoch)
    assert lost == {"c1"}
    assert form.store.silent(candidates, FAIL_OVER_SECONDS) == set()
    assert {shard: owner.container for shard, owner in inherited.items()} == {0: "heir"}
    _, members, found, *_ = form.store.read(-1)
    assert [name for name, each in sorted(members.items()) if not each.live] == ["c1"]
    assert [found[shard].container for shard in range(3)] == ["heir", "c2", "c3"]


def test_new_owners_come_with_the_newest_stop_that_was_not_asked_about(form: Any) -> None:
    """By each call that tells owners: a move, a fail-over, a registration, a read, a take-over, a renewal by itself."""
    epoch = form.elect("a")
    for name in ("c1", "heir"):
        join(form.store, epoch, name)
    owners = own(form.store, epoch, "c1")
    form.unasked_stop(7)
    told = [form.renew_by_itself("c1", "one").unasked_stop]
    told += [form.store.read(-1).unasked_stop, form.store.take_over(epoch).unasked_stop]
    told.append(form.store.record({0: Change("c1", owners[0].epoch)}, epoch).unasked_stop)
    told.append(form.store.register(member("c2"), empty=True, above=-1, leader_epoch=epoch).unasked_stop)
    told.append(form.store.fail_over({"heir": "one"}, {}, 0.0, epoch).unasked_stop)
    assert told == [7] * 6


def test_a_former_leader_writes_nothing(form: Any) -> None:
    old = form.elect("a")
    join(form.store, old, "c1")
    newest = form.elect("b")
    before = form.store.read(-1)
    change = {0: Change("c1", before.owners[0].epoch)}
    calls: list[Callable[[], object]] = [
        lambda: form.store.take_over(old),
        lambda: form.store.register(member("c2"), empty=True, above=-1, leader_epoch=old),
        lambda: form.store.fail_over({"c1": "one"}, {"c1": change}, 0.0, old),
        lambda: form.store.record(change, old),
        lambda: form.store.save_heartbeats({"c1": 0.0}, old),
        lambda: form.store.reshard(SHARDS, old),
        lambda: form.store.give_slots_to_jobs(old),
        lambda: form.store.save_placement({"c1": {}}, [], old),
    ]
    for call in calls:
        with pytest.raises(Fenced):
            call()
    assert form.store.read(-1) == before
    assert form.store.record(change, newest).owners.keys() == {0}


def test_heartbeats_are_of_the_store_s_clock_and_never_go_back(form: Any) -> None:
    """They are compared with the times of reports, which are, too: no Shard Manager's clock comes into it."""
    epoch = form.elect("a")
    join(form.store, epoch, "c1")
    form.never_heard("c1")
    before, _ = form.now_and_heard_at("c1")
    form.store.save_heartbeats({"c1": 3.0, "unknown": 1.0}, epoch)
    after, heard_at = form.now_and_heard_at("c1")
    assert before <= heard_at + timedelta(seconds=3) <= after
    form.store.save_heartbeats({"c1": 900.0}, epoch)
    assert form.now_and_heard_at("c1")[1] == heard_at


def test_a_store_that_is_away_is_unavailable(form: Any) -> None:
    epoch = form.elect("a")
    calls: list[Callable[[], object]] = [
        lambda: form.away.take_over(epoch),
        lambda: form.away.read(-1),
        lambda: form.away.register(member("c1"), empty=True, above=-1, leader_epoch=epoch),
        lambda: form.away.fail_over({}, {}, 0.0, epoch),
        lambda: form.away.silent({}, 0.0),
        lambda: form.away.record({}, epoch),
        lambda: form.away.save_heartbeats({}, epoch),
        lambda: form.away.reshard(SHARDS, epoch),
        lambda: form.away.give_slots_to_jobs(epoch),
        lambda: form.away.save_placement({}, [], epoch),
        form.away.jobs,
        form.away.loads,
        form.away.leader_url,
    ]
    for call in calls:
        with pytest.raises(Unavailable):
            call()
    assert form.store.read(-1).members == {}


def test_who_registers_hears_of_a_commit_that_no_later_one_comes_before(form: Any) -> None:
    epoch = form.elect("a")
    form.commit(7)
    assert form.store.register(member("c1"), empty=True, above=-1, leader_epoch=epoch).commit_number == 7
    assert form.store.read(-1).commit_number == form.store.take_over(epoch).commit_number == 7


def test_more_shards_change_no_owner_and_no_epoch(form: Any) -> None:
    """1. Nothing changes before it is wanted. 2. Each part has the owner and the epoch of the whole, under a version
    above all epochs. 3. Once more changes nothing. 4. A container that asks the store hears all of one moment."""
    epoch = form.elect("a")
    for name in ("c1", "c2"):
        join(form.store, epoch, name)
    owned = own(form.store, epoch, "c1")
    form.store.record({1: Change("c2", owned[1].epoch)}, epoch)
    before = form.store.take_over(epoch)
    assert form.store.reshard(3 * SHARDS, epoch) == before
    form.want(3 * SHARDS)
    cell = form.store.reshard(3 * SHARDS, epoch)
    assert cell.owners == {shard: before.owners[shard % SHARDS] for shard in range(3 * SHARDS)}
    assert cell.facts.sharding == replace(before.facts.sharding, count=3 * SHARDS)
    assert cell.facts.version > max(owner.epoch for owner in cell.owners.values())
    assert form.store.reshard(3 * SHARDS, epoch) == form.store.take_over(epoch) == cell
    assert form.store.read(cell.facts.version).facts == cell.facts
    stored = form.renew_by_itself("c2", "one")
    parts = range(1, 3 * SHARDS, SHARDS)
    assert stored[:3] == (dict.fromkeys(parts, cell.owners[1].epoch), cell.facts.version, cell.facts.sharding)


def test_fewer_shards_take_parts_that_have_one_owner(form: Any) -> None:
    """1. While two owners have parts of a shard nothing changes. 2. Then the whole has the greatest of their epochs."""
    epoch = form.elect("a")
    for name in ("c1", "c2"):
        join(form.store, epoch, name)
    owned = own(form.store, epoch, "c1")
    form.want(SHARDS // 2)
    apart = form.store.record({0: Change("c2", owned[0].epoch)}, epoch).owners
    before = form.store.take_over(epoch)
    with pytest.raises(Conflict):
        form.store.reshard(SHARDS // 2, epoch)
    assert form.store.take_over(epoch) == before
    back = form.store.record({0: Change("c1", apart[0].epoch)}, epoch).owners
    cell = form.store.reshard(SHARDS // 2, epoch)
    assert cell.owners == {0: back[0], 1: owned[1]}
    assert (cell.facts.sharding.count, cell.facts.wanted) == (SHARDS // 2, SHARDS // 2)


def test_a_container_that_restarts_after_the_change_has_all_parts_under_a_new_epoch(form: Any) -> None:
    epoch = form.elect("a")
    join(form.store, epoch, "c1")
    own(form.store, epoch, "c1")
    form.want(2 * SHARDS)
    newest = form.store.reshard(2 * SHARDS, epoch).facts.version
    _, changed, _, facts, _ = form.store.register(member("c1", "two"), empty=True, above=newest, leader_epoch=epoch)
    assert changed == dict.fromkeys(range(2 * SHARDS), Owner("c1", newest + 1))
    assert facts.sharding.count == 2 * SHARDS


def test_regions_of_containers_and_what_jobs_ask_for_get_a_place(form: Any) -> None:
    """In the order in which they come, and each change under a number of its own; but what no container has."""
    epoch = form.elect("a")
    assert form.store.take_over(epoch).facts.sharding.selectors == ()
    first = form.store.register(member("c1"), empty=True, above=-1, leader_epoch=epoch).facts
    assert first.sharding.selectors == ("local",)
    form.run("job", region="here")
    form.run("labelled", container_labels={"gpu": "yes", "disk": "ssd"})
    form.run("both", region="here", container_labels={"disk": "ssd"})
    form.run("any")
    form.store.give_slots_to_jobs(epoch)
    assert form.store.take_over(epoch).facts == first
    there = member("c2")._replace(region="here", labels={"gpu": "yes", "disk": "ssd"})
    form.store.register(there, empty=True, above=-1, leader_epoch=epoch)
    form.store.give_slots_to_jobs(epoch)
    second = form.store.read(-1).facts
    assert second.sharding == Sharding(SHARDS, ("local", "here", "disk=ssd,gpu=yes", "here,disk=ssd"))
    assert second.version > first.version > 0
    form.store.give_slots_to_jobs(epoch)
    assert form.store.take_over(epoch).facts == second


def test_the_alert_about_a_selector_without_a_slot_ends_when_no_job_asks_for_it(form: Any) -> None:
    epoch = form.elect("a")
    keys = [f"k{number:02}" for number in range(SLOTS)]
    one = member("c1")._replace(labels=dict.fromkeys(keys, "yes"))
    form.store.register(one, empty=True, above=-1, leader_epoch=epoch)
    for key in keys:
        form.run(key, container_labels={key: "yes"})
    for _ in range(2):
        form.store.give_slots_to_jobs(epoch)
        assert form.open_alerts() == {(AlertKind.SELECTOR_WITHOUT_SLOT, f"{keys[-1]}=yes"): ({}, 1)}
    form.store.take_over(epoch)
    assert len(form.open_alerts()) == 1
    form.run(keys[-1], container_labels={keys[0]: "yes"})
    form.store.give_slots_to_jobs(epoch)
    assert form.open_alerts() == {}


def test_the_jobs_whose_tasks_should_run_are_read_with_what_they_ask(form: Any) -> None:
    resources = {"cpu_cores": 2.0, "memory_bytes": 2**30, "disk_bytes": 7}
    form.run("a", task_count=3, resources=resources, isolation="process", region="east", priority=-2)
    form.run("b", task_count=1, resources=resources, container_labels={"disk": "ssd"})
    form.run("off", desired_state="stopped")
    form.run("gone", stopping=True)
    reserved = {CPU: 2.0, MEMORY: 2**30, DISK: 7}
    assert sorted(form.store.jobs(), key=lambda job: job.job) == [
        JobTasks("a", 3, 1, True, reserved, "east", -2),
        JobTasks("b", 1, 1, False, reserved, "disk=ssd"),
    ]


def test_loads_are_as_they_were_told_last(form: Any) -> None:
    """1. Two tasks are reported, one with its load. 2. A later report has none: the load stays."""
    epoch = form.elect("a")
    join(form.store, epoch, "c1")
    assert form.store.loads() == []
    for loads in ({0: {CPU: 0.5}, 1: None}, {0: None}):
        tasks = tuple(
            TaskReport(
                job="j",
                index=index,
                state=TaskState.RUNNING,
                revision=1,
                generation=3,
                restarts=0,
                epoch=1,
                load=load,
            )
            for index, load in loads.items()
        )
        form.report(TaskReportBatch(container="c1", incarnation="one", commit_number=1, version=1, tasks=tasks))
        assert form.store.loads() == [TaskLoad("j", 0, 3, {CPU: 0.5})]


def test_a_placement_is_told_by_container_and_its_alerts_are_raised_once_and_cleared(form: Any) -> None:
    """1. Two alerts. 2. The same again: nothing new. 3. One says something else and the other is over."""
    epoch = form.elect("a")
    join(form.store, epoch, "c1")
    placement = {"at": "2026-01-01T00:00:00+00:00", "load": {CPU: 1.0}, "usable": {CPU: 2.0}, "deviation": {CPU: 0.0}}
    region = PlacementAlert(AlertKind.SELECTOR_UNMET, "j", "j asks in vain", {"region": "x"})
    short = PlacementAlert(AlertKind.UNPLACEABLE, "too_large", "one shard", {"count": 1})
    for _ in range(2):
        form.store.save_placement({"c1": placement, "unknown": placement}, [region, short], epoch)
        assert form.placements() == {"c1": placement}
        assert form.open_alerts() == {
            (AlertKind.SELECTOR_UNMET, "j"): ({"region": "x"}, 1),
            (AlertKind.UNPLACEABLE, "too_large"): ({"count": 1}, 1),
        }
    form.store.save_placement({}, [short._replace(message="two shards", details={"count": 2})], epoch)
    assert form.placements() == {"c1": placement}
    assert form.open_alerts() == {(AlertKind.UNPLACEABLE, "too_large"): ({"count": 2}, 2)}


def test_a_task_avoids_a_container_for_a_while(form: Any) -> None:
    form.run("j")
    slow = Avoidance("j", 0, "c1")
    form.avoid(Avoidance("j", 0, "c2"), timedelta())
    form.avoid(Avoidance("gone", 0, "c2"), timedelta(hours=1))
    form.avoid(slow, timedelta(hours=1))
    assert [job.avoids for job in form.store.jobs()] == [(slow,)]
