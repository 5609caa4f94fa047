"""Which containers a shard is bound to when its tasks do not agree, or ask for what nobody offers."""

from __future__ import annotations

from penstock.tasks.shards import Sharding
from penstock.tasks.taking import ANYWHERE, Constraint
from services.shard_manager.placement.binding import Unmet, bind
from services.shard_manager.placement.needs import needs_of
from tests.support.shard_manager.facts import job, member


def bound(jobs, *, offers=(), members=(), home=None, shards=1):
    """`offers`: by open container, as a selector."""
    selectors = tuple(sorted({each.selector for each in jobs if each.selector is not None}))
    asks = needs_of(jobs, [], Sharding(shards, selectors)).asks
    open_ones = [frozenset(offer.split(",")) for offer in offers]
    found = bind(asks, shards, open_ones, {each.name: each for each in members}, home or {})
    return [found.constraints[row] for row in found.constraint], found.unmet


def region(name: str) -> Constraint:
    return Constraint(frozenset([name]))


def test_a_region_that_nobody_offers_binds_nothing():
    constraints, unmet = bound([job("a", 1, "nowhere"), job("b", 1)], offers=["east"])
    assert constraints == [ANYWHERE]
    assert unmet == (Unmet("a", "nowhere", "no open container has region nowhere", (0,)),)


def test_the_more_important_decides_between_regions():
    jobs = [job("a", 3, "east"), job("b", 1, "west", priority=1)]
    constraints, unmet = bound(jobs, offers=["east", "west"])
    assert constraints == [region("west")]
    rule = "it shares shards with job b, which takes precedence and asks for other containers"
    assert unmet == (Unmet("a", "east", rule, (0,)),)


def test_an_important_job_that_asks_for_what_nobody_offers_binds_nobody_else():
    constraints, unmet = bound([job("a", 1, "nowhere", priority=9), job("b", 1, "east")], offers=["east"])
    assert constraints == [region("east")]
    assert [each.job for each in unmet] == ["a"]


def test_a_shard_stays_in_a_region_whose_containers_take_no_new_ones():
    """All containers of the region are cordoned: who is there may stay, and nobody else is bound to it."""
    east = member("c", "east")
    jobs = [job("a", 1, "east")]
    assert bound(jobs, members=[east], home={0: "c"}) == ([region("east")], ())
    constraints, unmet = bound(jobs, members=[east], home={0: "elsewhere"})
    assert constraints == [ANYWHERE]
    assert [each.job for each in unmet] == ["a"]


def test_jobs_of_one_region_agree():
    assert bound([job("a", 1, "east"), job("b", 1, "east")], offers=["east"]) == ([region("east")], ())


def test_a_selector_is_had_from_one_container_that_has_all_of_it():
    jobs = [job("a", 1, "east,disk=ssd")]
    constraints, unmet = bound(jobs, offers=["east", "west,disk=ssd"])
    assert constraints == [ANYWHERE]
    assert unmet == (Unmet("a", "east,disk=ssd", "no open container has region east and label disk=ssd", (0,)),)
    wanted = Constraint(frozenset(["east"]), frozenset(["disk=ssd"]))
    assert bound(jobs, offers=["east", "east,disk=ssd,gpu=yes"]) == ([wanted], ())


def test_a_shard_stays_with_labels_whose_containers_take_no_new_ones():
    ssd = member("c", labels={"disk": "ssd"})
    wanted = Constraint(labels=frozenset(["disk=ssd"]))
    assert bound([job("a", 1, "disk=ssd")], members=[ssd], home={0: "c"}) == ([wanted], ())
