"""When shards are placed again."""

from __future__ import annotations

import pytest

from penstock.model.alerts import AlertKind
from penstock.tasks.dimensions import CPU
from penstock.tasks.loads import with_avoided
from penstock.tasks.ownership import CORDONED, Avoidance
from penstock.tasks.shards import Sharding, shard_of
from services.shard_manager.placement.needs import needs_of
from services.shard_manager.placement.target import container_facts, review
from services.shard_manager.placement.trigger import Periods, PlacementTrigger, trigger_of_cell, trigger_of_needs
from tests.support.shard_manager.facts import job, jobs_in, member, members, reported
from tests.support.shard_manager.targets import RULES, SHARDING, SHARDS, TWO, counts, made

PERIODS = Periods(usual=1800.0, unfinished=60.0)


def test_a_target_stays_until_there_is_a_reason():
    target = made()
    assert trigger_of_cell(target, container_facts(TWO), SHARDING, 1799.0, PERIODS) is None
    assert trigger_of_cell(target, container_facts(TWO), SHARDING, 1800.0, PERIODS) is PlacementTrigger.PERIOD
    assert trigger_of_cell(None, container_facts(TWO), SHARDING, 0.0, PERIODS) is PlacementTrigger.TAKEN_OVER
    assert trigger_of_cell(target, container_facts(TWO), Sharding(SHARDS + 1), 0.0, PERIODS) is PlacementTrigger.SHARDS


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
    assert trigger_of_cell(made(), container_facts(TWO | change), SHARDING, 0.0, PERIODS) is PlacementTrigger.CONTAINERS


def test_another_life_of_a_container_is_no_reason():
    hosts = TWO | {"b": member("b", incarnation="2", url="http://elsewhere")}
    assert trigger_of_cell(made(), container_facts(hosts), SHARDING, 0.0, PERIODS) is None


def test_a_container_that_goes_is_a_reason():
    assert trigger_of_cell(made(), container_facts(members("a")), SHARDING, 0.0, PERIODS) is PlacementTrigger.CONTAINERS


def test_what_a_budget_ended_goes_on_soon():
    """Six shards should go to the new container: two at a time, then nothing is left to do."""
    rules, present, moved = RULES._replace(move_budget=2), dict.fromkeys(range(SHARDS), "a"), []
    for _ in range(9):
        target = made(present=present, rules=rules)
        moved.append(len(target.order))
        if target.finished:
            break
        assert trigger_of_cell(target, container_facts(TWO), SHARDING, 59.0, PERIODS) is None
        assert trigger_of_cell(target, container_facts(TWO), SHARDING, 60.0, PERIODS) is PlacementTrigger.UNFINISHED
        present = dict(target.where)
    assert moved == [2, 2, 2]
    assert counts(target) == [6, 6]


def test_a_hot_container_gives_shards_away_when_its_loads_are_reported():
    """1. Estimates are all alike. 2. Two tasks of one container turn out to use a core each. 3. One of them moves."""
    names = [names[0] for names in jobs_in(dict.fromkeys(range(SHARDS), 1), SHARDS).values()]
    jobs = [job(name) for name in names]
    first = made(needs=needs_of(jobs, [], SHARDING))
    assert counts(first) == [6, 6]
    on_a = [name for name in names if first.where[shard_of(f"{name}/0", SHARDS)] == "a"]
    loads = [reported(name, cpu=1.8 if name in on_a[:2] else 0.05) for name in names]
    needs = needs_of(jobs, loads, SHARDING)
    violations = review(first, TWO, needs, RULES).violations
    assert violations.overloaded == {("a", CPU)}
    assert trigger_of_needs(first, violations) is PlacementTrigger.OVERLOADED
    second = made(needs=needs, present=first.where)
    hot = {second.where[shard_of(f"{name}/0", SHARDS)] for name in on_a[:2]}
    assert hot == {"a", "b"}
    assert review(second, TWO, needs, RULES).violations == second.violations


def test_what_could_not_be_kept_to_is_no_reason_to_place_again():
    """One task needs more than any container has: it runs all the same, people are told, and that is that."""
    needs = needs_of([job("big")], [reported("big", cpu=5.0)], SHARDING)
    target = made(needs=needs)
    shard = shard_of("big/0", SHARDS)
    assert target.where.keys() == set(range(SHARDS))
    assert target.violations.overloaded == {(target.where[shard], CPU)}
    assert [(alert.kind, alert.subject, alert.details["shards"]) for alert in target.alerts] == [
        (AlertKind.UNPLACEABLE, "too_large", [shard])
    ]
    assert target.alerts[0].details["without_owner"] == 0
    assert trigger_of_needs(target, review(target, TWO, needs, RULES).violations) is None


def test_a_job_that_asks_for_a_region_is_a_reason_and_one_that_asks_in_vain_hurts_nobody():
    hosts = {"a": member("a", "east"), "b": member("b", "west")}
    before = made(hosts=hosts)
    asks = next(name for name in map("j{}".format, range(99)) if before.where[_in_west(name)] == "a")
    shard = _in_west(asks)
    [[other]] = jobs_in({shard: 1}, SHARDS).values()
    needs = needs_of([job(asks, selector="west"), job(other)], [], SHARDING)
    violations = review(before, hosts, needs, RULES).violations
    assert (violations.misplaced, trigger_of_needs(before, violations)) == ({shard}, PlacementTrigger.MISPLACED)
    after = made(hosts=hosts, needs=needs, present=before.where)
    assert (after.where[shard], after.alerts) == ("b", ())
    in_vain = needs_of([job(asks, selector="north"), job(other)], [], SHARDING)
    seen = review(after, hosts, in_vain, RULES)
    assert trigger_of_needs(after, seen.violations) is None
    assert [(alert.kind, alert.subject) for alert in seen.alerts] == [(AlertKind.SELECTOR_UNMET, asks)]
    assert seen.alerts[0].message == (
        f"job {asks} asks for region north: no open container has region north; its tasks in 1 shards do not run"
    )
    assert made(hosts=hosts, needs=in_vain, present=after.where).where.keys() == set(range(SHARDS))


def test_a_shard_leaves_the_container_that_one_of_its_tasks_avoids():
    """1. The task is slow on its container. 2. Its shard goes to the other one, and nothing is left to do. 3. The only
    container that may have it keeps it."""
    before = made()
    where = before.where[shard_of("j/1", SHARDS)]
    [elsewhere] = {"a", "b"} - {where}
    avoided = [Avoidance("j", 1, where), Avoidance("j", 7, elsewhere), Avoidance("gone", 0, elsewhere)]
    needs = needs_of(with_avoided([job("j", 2)], avoided), [], SHARDING)
    violations = review(before, TWO, needs, RULES).violations
    assert violations.misplaced == {shard_of("j/1", SHARDS)}
    assert trigger_of_needs(before, violations) is PlacementTrigger.MISPLACED
    after = made(needs=needs, present=before.where)
    assert after.where[shard_of("j/1", SHARDS)] == elsewhere
    assert trigger_of_needs(after, review(after, TWO, needs, RULES).violations) is None
    alone = {where: TWO[where]}
    assert made(hosts=alone, needs=needs).where.keys() == set(range(SHARDS))
    cordoned = TWO | {elsewhere: TWO[elsewhere]._replace(availability=CORDONED)}
    assert review(before, cordoned, needs, RULES).violations.misplaced == frozenset()


def test_a_shard_stays_on_the_only_container_that_can_hold_it_though_its_task_avoids_it() -> None:
    """1. The task needs more than any other container has. 2. It stays, limits hold, and nobody is asked anything."""
    hosts = {"big": member("big", cpu_cores=64.0)} | {f"c{n}": member(f"c{n}", cpu_cores=16.0) for n in range(20)}
    shard, loads = shard_of("large/0", SHARDS), [reported("large", cpu=40.0)]
    before = made(hosts=hosts, needs=needs_of([job("large")], loads, SHARDING))
    assert before.where[shard] == "big"
    needs = needs_of(with_avoided([job("large")], [Avoidance("large", 0, "big")]), loads, SHARDING)
    after = made(hosts=hosts, needs=needs, present=before.where)
    assert (after.where[shard], after.alerts, after.order) == ("big", (), ())
    assert review(before, hosts, needs, RULES).violations == before.violations


def _in_west(name: str) -> int:
    shard = SHARDING.shard_of(f"{name}/0", "west")
    assert shard is not None
    return shard
