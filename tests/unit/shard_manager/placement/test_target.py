"""What a target says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from penstock.model.alerts import AlertKind
from penstock.tasks.dimensions import CPU
from penstock.tasks.ownership import DRAINING
from penstock.tasks.shards import SLOTS, Sharding
from services.shard_manager.placement.needs import needs_of
from services.shard_manager.placement.target import usable_members
from tests.support.shard_manager.facts import job, member, members, reported
from tests.support.shard_manager.targets import SHARDING, SHARDS, TWO, counts, made


def test_a_drain_that_has_come_to_its_limit_is_over():
    limit = datetime(2026, 1, 1, tzinfo=UTC)
    hosts = TWO | {"b": member("b", availability=DRAINING, drain_until=limit)}
    assert usable_members(hosts, limit - timedelta(seconds=1)) == hosts
    assert usable_members(hosts, limit).keys() == {"a"}


def test_placing_again_moves_nothing():
    jobs = [job(f"j{number}", 3, priority=number % 2) for number in range(8)]
    loads = [reported(f"j{number}", 0, cpu=0.1 * number) for number in range(8)]
    needs = needs_of(jobs, loads, SHARDING)
    first = made(needs=needs)
    again = made(needs=needs, present=first.where)
    assert (again.order, again.where) == ((), first.where)


@pytest.mark.parametrize(
    ("region", "places", "rule"),
    [
        pytest.param(
            "more", SLOTS, "all 16 selector slots of the cell are taken by other regions and sets of labels", id="full"
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
    assert [
        alert.message for alert in target.alerts if (alert.kind, alert.subject) == (AlertKind.SELECTOR_UNMET, "j")
    ] == told
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


def test_what_a_container_was_given_by_is_reported():
    figures = made(needs=needs_of([job("j")], [reported("j", cpu=2.0)], SHARDING)).figures
    assert figures.keys() == {"a", "b"}
    loads = sorted(each["load"][CPU] for each in figures.values())
    assert loads[1] == pytest.approx(2.0, abs=0.2)
    assert figures["a"]["usable"][CPU] == pytest.approx(3.6)
    assert {name for name, each in figures.items() if each["deviation"][CPU] > 0.5} == {
        name for name, each in figures.items() if each["load"][CPU] > 1.0
    }
