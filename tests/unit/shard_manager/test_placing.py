"""When shards are placed anew, and what a target says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from penstock.tasks.dimensions import CPU
from penstock.tasks.ownership import CORDONED, DRAINING
from penstock.tasks.shards import SLOTS, Sharding, shard_of
from services.shard_manager.placement.alerts import REGION_UNMET, UNPLACEABLE
from services.shard_manager.placement.cell import Rules
from services.shard_manager.placement.needs import needs_of
from services.shard_manager.placing import (
    Periods,
    Reason,
    hosts_of,
    look_at,
    reason_of_needs,
    reason_to_place,
    target_of,
    to_place_on,
)
from tests.support.cells import job, jobs_in, member, members, told

RULES = Rules()
PERIODS = Periods(usual=1800.0, unfinished=60.0)
SHARDS = 12
SHARDING = Sharding(SHARDS, ("west", "north"))
IDLE = needs_of([], [], SHARDING)
TWO = members("a", "b")


def made(hosts=None, needs=IDLE, present=None, rules=RULES, now=0.0):
    return target_of(TWO if hosts is None else hosts, needs, present or {}, rules, now)


def counts(target):
    return sorted(list(target.where.values()).count(name) for name in set(target.where.values()))


# ---- when


def test_a_target_stays_until_there_is_a_reason():
    target = made()
    assert reason_to_place(target, hosts_of(TWO), SHARDING, 1799.0, PERIODS) is None
    assert reason_to_place(target, hosts_of(TWO), SHARDING, 1800.0, PERIODS) is Reason.PERIOD
    assert reason_to_place(None, hosts_of(TWO), SHARDING, 0.0, PERIODS) is Reason.TAKEN_OVER
    assert reason_to_place(target, hosts_of(TWO), Sharding(SHARDS + 1), 0.0, PERIODS) is Reason.SHARDS


@pytest.mark.parametrize(
    "change",
    [
        {"c": member("c")},
        {"b": member("b", cpu_cores=8.0)},
        {"b": member("b", "east")},
        {"b": member("b", availability=CORDONED)},
        {"b": member("b", labels={"disk": "ssd"})},
    ],
)
def test_a_container_that_changes_is_a_reason(change):
    assert reason_to_place(made(), hosts_of(TWO | change), SHARDING, 0.0, PERIODS) is Reason.CONTAINERS


def test_another_life_of_a_container_is_no_reason():
    hosts = TWO | {"b": member("b", incarnation="2", url="http://elsewhere")}
    assert reason_to_place(made(), hosts_of(hosts), SHARDING, 0.0, PERIODS) is None


def test_a_container_that_goes_is_a_reason():
    assert reason_to_place(made(), hosts_of(members("a")), SHARDING, 0.0, PERIODS) is Reason.CONTAINERS


def test_what_a_budget_ended_goes_on_soon():
    """Six shards should go to the new container: two at a time, then nothing is left to do."""
    rules, present, moved = RULES._replace(move_budget=2), dict.fromkeys(range(SHARDS), "a"), []
    for _ in range(9):
        target = made(present=present, rules=rules)
        moved.append(len(target.order))
        if target.settled:
            break
        assert reason_to_place(target, hosts_of(TWO), SHARDING, 59.0, PERIODS) is None
        assert reason_to_place(target, hosts_of(TWO), SHARDING, 60.0, PERIODS) is Reason.UNFINISHED
        present = dict(target.where)
    assert moved == [2, 2, 2]
    assert counts(target) == [6, 6]


def test_a_drain_that_has_come_to_its_limit_is_over():
    limit = datetime(2026, 1, 1, tzinfo=UTC)
    hosts = TWO | {"b": member("b", availability=DRAINING, drain_until=limit)}
    assert to_place_on(hosts, limit - timedelta(seconds=1)) == hosts
    assert to_place_on(hosts, limit).keys() == {"a"}


# ---- what


def test_placing_again_moves_nothing():
    jobs = [job(f"j{number}", 3, priority=number % 2) for number in range(8)]
    loads = [told(f"j{number}", 0, cpu=0.1 * number) for number in range(8)]
    needs = needs_of(jobs, loads, SHARDING)
    first = made(needs=needs)
    again = made(needs=needs, present=first.where)
    assert (again.order, again.where) == ((), first.where)


def test_a_hot_container_gives_shards_away_when_its_loads_are_told():
    """1. Estimates are all alike. 2. Two tasks of one container turn out to use a core each. 3. One of them moves."""
    names = [names[0] for names in jobs_in(dict.fromkeys(range(SHARDS), 1), SHARDS).values()]
    jobs = [job(name) for name in names]
    first = made(needs=needs_of(jobs, [], SHARDING))
    assert counts(first) == [6, 6]
    on_a = [name for name in names if first.where[shard_of(f"{name}/0", SHARDS)] == "a"]
    loads = [told(name, cpu=1.8 if name in on_a[:2] else 0.05) for name in names]
    needs = needs_of(jobs, loads, SHARDING)
    broken = look_at(first, TWO, needs, RULES).broken
    assert broken.overloaded == {("a", CPU)}
    assert reason_of_needs(first, broken) is Reason.OVERLOADED
    second = made(needs=needs, present=first.where)
    hot = {second.where[shard_of(f"{name}/0", SHARDS)] for name in on_a[:2]}
    assert hot == {"a", "b"}
    assert look_at(second, TWO, needs, RULES).broken == second.broken


def test_what_could_not_be_kept_to_is_no_reason_to_place_again():
    """One task needs more than any container has: it runs all the same, people are told, and that is that."""
    needs = needs_of([job("big")], [told("big", cpu=5.0)], SHARDING)
    target = made(needs=needs)
    shard = shard_of("big/0", SHARDS)
    assert target.where.keys() == set(range(SHARDS))
    assert target.broken.overloaded == {(target.where[shard], CPU)}
    assert [(alert.kind, alert.subject, alert.details["shards"]) for alert in target.alerts] == [
        (UNPLACEABLE, "too_large", [shard])
    ]
    assert target.alerts[0].details["without_owner"] == 0
    assert reason_of_needs(target, look_at(target, TWO, needs, RULES).broken) is None


def test_a_job_that_asks_for_a_region_is_a_reason_and_one_that_asks_in_vain_hurts_nobody():
    hosts = {"a": member("a", "east"), "b": member("b", "west")}
    before = made(hosts=hosts)
    asks = next(name for name in map("j{}".format, range(99)) if before.where[_in_west(name)] == "a")
    shard = _in_west(asks)
    [[other]] = jobs_in({shard: 1}, SHARDS).values()
    needs = needs_of([job(asks, selector="west"), job(other)], [], SHARDING)
    broken = look_at(before, hosts, needs, RULES).broken
    assert (broken.misplaced, reason_of_needs(before, broken)) == ({shard}, Reason.MISPLACED)
    after = made(hosts=hosts, needs=needs, present=before.where)
    assert (after.where[shard], after.alerts) == ("b", ())
    in_vain = needs_of([job(asks, selector="north"), job(other)], [], SHARDING)
    seen = look_at(after, hosts, in_vain, RULES)
    assert reason_of_needs(after, seen.broken) is None
    assert [(alert.kind, alert.subject) for alert in seen.alerts] == [(REGION_UNMET, asks)]
    assert seen.alerts[0].message == (
        f"job {asks} asks for region north: no open container has region north; its tasks in 1 shards do not run"
    )
    assert made(hosts=hosts, needs=in_vain, present=after.where).where.keys() == set(range(SHARDS))


def _in_west(name: str) -> int:
    shard = SHARDING.shard_of(f"{name}/0", "west")
    assert shard is not None
    return shard


@pytest.mark.parametrize(
    ("region", "places", "rule"),
    [
        pytest.param(
            "more", SLOTS, "the cell has places for 16 regions and sets of labels, and this is one more", id="full"
        ),
        pytest.param("east", SLOTS, "no container has region more", id="full, and in vain"),
        pytest.param("east", 0, "no container has region more", id="in vain"),
        pytest.param("more", 0, None, id="about to have a place"),
    ],
)
def test_what_is_told_of_a_job_that_asks_for_what_has_no_place(region: str, places: int, rule: str | None):
    sharding = Sharding(SHARDS, tuple(f"r{number}" for number in range(places)))
    target = made(hosts={"a": member("a", region)}, needs=needs_of([job("j", selector="more")], [], sharding))
    told = [f"job j asks for region more: {rule}; its tasks do not run"] if rule else []
    assert [alert.message for alert in target.alerts if (alert.kind, alert.subject) == (REGION_UNMET, "j")] == told
    assert len(target.alerts) == len(told)


def test_without_containers_nothing_has_a_place():
    target = made(hosts={}, present={0: "gone"})
    assert (target.where, target.order, target.unplaceable) == ({}, (), SHARDS)
    assert [alert.details["without_owner"] for alert in target.alerts] == [SHARDS]


def test_a_draining_container_is_emptied_first():
    hosts = members("a", "b", "c") | {"c": member("c", availability=DRAINING)}
    present = {shard: "abc"[shard % 3] for shard in range(SHARDS)}
    target = made(hosts=hosts, present=present)
    assert sorted(target.order) == [shard for shard in range(SHARDS) if present[shard] == "c"]
    assert counts(target) == [6, 6]


def test_what_a_container_was_given_by_is_told():
    figures = made(needs=needs_of([job("j")], [told("j", cpu=2.0)], SHARDING)).figures
    assert figures.keys() == {"a", "b"}
    loads = sorted(each.load[CPU] for each in figures.values())
    assert loads[1] == pytest.approx(2.0, abs=0.2)
    assert figures["a"].usable[CPU] == pytest.approx(3.6)
    at = datetime(2026, 1, 1, tzinfo=UTC)
    assert figures["a"].as_json(at)["at"] == "2026-01-01T00:00:00+00:00"
    assert {name for name, each in figures.items() if each.deviation[CPU] > 0.5} == {
        name for name, each in figures.items() if each.load[CPU] > 1.0
    }
