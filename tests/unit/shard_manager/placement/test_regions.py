"""Which region a shard is bound to when its tasks do not agree, or ask for what nobody offers."""

from __future__ import annotations

from penstock.tasks.shards import Sharding
from services.shard_manager.placement.needs import needs_of
from services.shard_manager.placement.problem import ANYWHERE, Constraint
from services.shard_manager.placement.regions import Unmet, bind
from tests.support.cells import job, member


def bound(jobs, *, open_regions=(), members=(), home=None, shards=1):
    regions = tuple(sorted({each.region for each in jobs if each.region is not None}))
    asks = needs_of(jobs, [], Sharding(shards, regions)).asks
    found = bind(asks, shards, open_regions, {each.name: each for each in members}, home or {})
    return [found.constraints[row] for row in found.constraint], found.unmet


def region(name: str) -> Constraint:
    return Constraint(frozenset([name]))


def test_a_region_that_nobody_offers_binds_nothing():
    constraints, unmet = bound([job("a", 1, "nowhere"), job("b", 1)], open_regions=["east"])
    assert constraints == [ANYWHERE]
    assert unmet == (Unmet("a", "nowhere", "no open container is in region nowhere", (0,)),)


def test_the_more_important_decides_between_regions():
    jobs = [job("a", 3, "east"), job("b", 1, "west", priority=1)]
    constraints, unmet = bound(jobs, open_regions=["east", "west"])
    assert constraints == [region("west")]
    rule = "it shares shards with job b, which goes first and asks for another region"
    assert unmet == (Unmet("a", "east", rule, (0,)),)


def test_an_important_job_that_asks_for_what_nobody_offers_binds_nobody_else():
    constraints, unmet = bound([job("a", 1, "nowhere", priority=9), job("b", 1, "east")], open_regions=["east"])
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
    assert bound([job("a", 1, "east"), job("b", 1, "east")], open_regions=["east"]) == ([region("east")], ())
