"""What the Shard Manager knows of a cell, as a problem."""

from __future__ import annotations

import pytest

from penstock.tasks.dimensions import CPU, NAMES, NETWORK
from penstock.tasks.ownership import CORDONED, DRAINING
from penstock.tasks.shards import Sharding
from services.shard_manager.placement.cell import UNBOUNDED, Rules, problem_of_cell
from services.shard_manager.placement.needs import needs_of
from services.shard_manager.placement.place import place
from services.shard_manager.placement.problem import State
from tests.support.shard_manager.facts import job, member, members

NOTHING = needs_of([], [], Sharding(12))


def test_containers_are_as_they_tell():
    hosts = {
        "b": member("b", "west", labels={"disk": "ssd", "rack": "7"}, availability=CORDONED),
        "a": member("a", "east", further_capacity={NETWORK: 7.0}, availability=DRAINING),
    }
    needs = needs_of([job("j", 1, "disk=ssd")], [], Sharding(12, ("disk=ssd",)))
    containers = problem_of_cell(hosts, needs, {}, Rules(headroom=0.25)).problem.containers
    assert containers.names == ("a", "b")
    assert [containers.region_names[region] for region in containers.region] == ["east", "west"]
    assert (containers.label_names, containers.labels.tolist()) == (("disk=ssd",), [[False], [True]])
    assert containers.state.tolist() == [State.DRAINING, State.CORDONED]
    assert containers.headroom.tolist() == [0.25, 0.25]


def test_a_container_of_an_availability_that_only_a_newer_release_knows_gets_nothing_new():
    containers = problem_of_cell({"a": member("a", availability="resting")}, NOTHING, {}, Rules()).problem.containers
    assert containers.state.tolist() == [State.CORDONED]


@pytest.mark.parametrize("untold", [float("nan"), float("inf"), -1.0])
def test_a_capacity_that_cannot_be_is_that_of_the_others_and_unbounded_where_nobody_tells(untold: float):
    hosts = {"a": member("a", cpu_cores=2.0), "b": member("b", cpu_cores=4.0), "c": member("c", cpu_cores=untold)}
    capacity = problem_of_cell(hosts, NOTHING, {}, Rules()).problem.containers.capacity
    assert capacity[:, NAMES.index(CPU)].tolist() == [2.0, 4.0, 3.0]
    assert capacity[:, NAMES.index(NETWORK)].tolist() == [UNBOUNDED] * 3


def test_shards_without_tasks_are_spread_by_count():
    answer = place(problem_of_cell(members("a", "b", "c"), NOTHING, {}, Rules()).problem, {})
    counts = [list(answer.assignment.values()).count(name) for name in "abc"]
    assert counts == [4, 4, 4]


@pytest.mark.parametrize("shards", [64, 100_000])
def test_shards_without_tasks_take_little_of_a_cell_however_many_they_are(shards: int):
    problem = problem_of_cell(members("a", "b"), needs_of([], [], Sharding(shards)), {}, Rules()).problem
    asked, offered = problem.shards.load.sum(axis=0), problem.containers.capacity.sum(axis=0)
    assert (problem.shards.load > 0).all()
    assert (asked <= offered * 0.051).all()


@pytest.mark.parametrize("asked", ["west", "disk=ssd", "west,disk=ssd"])
def test_a_shard_goes_where_what_its_tasks_ask_for_is(asked: str):
    hosts = {"a": member("a", "east"), "b": member("b", "west", labels={"disk": "ssd"})}
    needs = needs_of([job("j", 4, asked)], [], Sharding(4, (asked,)))
    answer = place(problem_of_cell(hosts, needs, {}, Rules()).problem, {})
    asking = needs.asks.shard.tolist()
    assert {answer.assignment[shard] for shard in asking} == {"b"}
    assert answer.unplaceable == ()
