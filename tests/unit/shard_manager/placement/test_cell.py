"""What the Shard Manager knows, as a problem; what a placement says, as alerts."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.tasks.ownership import Member
from penstock.tasks.shards import shard_of
from services.shard_manager.placement.cell import (
    UNBOUNDED,
    JobNeeds,
    PlacementAlert,
    PlacementRules,
    alerts_of,
    problem_of_cell,
    shard_needs,
)
from services.shard_manager.placement.place import place
from services.shard_manager.placement.problem import ANYWHERE, Constraint, State

RULES = PlacementRules(("cpu", "network"), headroom=0.0, band=0.1, move_budget=None)


def _member(name: str, region: str = "east", *, live: bool = True) -> Member:
    return Member(name, "1", "http://127.0.0.1:1", region, 4.0, 10, 10, live)


def _problem(members, jobs, *, shards=8, states=None, labels=None, capacity=None, load=None):
    capacity = {member.name: {"cpu": 4.0} for member in members} if capacity is None else capacity
    load = np.full((shards, 2), 0.25) if load is None else load
    return problem_of_cell(members, states or {}, labels or {}, capacity, load, shard_needs(jobs, shards), RULES)


def test_a_shard_asks_what_its_tasks_ask():
    """Shard 0 of 1 holds all tasks: the most important counts, restarts add up, regions and labels must all hold."""
    jobs = [
        JobNeeds("a", 2, "east", frozenset({"ssd"}), priority=-3, restart_seconds=2.0),
        JobNeeds("b", 1, None, frozenset({"big"}), priority=-1),
    ]
    needs = shard_needs(jobs, 1)
    assert needs.constraints[needs.constraint[0]] == Constraint(frozenset({"east"}), frozenset({"ssd", "big"}))
    assert (needs.priority[0], needs.move_seconds[0], needs.spread[0]) == (-1, 5.0, 0)


def test_tasks_are_in_their_shards_and_jobs_are_spread_apart():
    shard_count = 64
    needs = shard_needs([JobNeeds("a", 3, "east"), JobNeeds("b", 3)], shard_count)
    of_a = {shard_of(f"a/{index}", shard_count) for index in range(3)}
    of_b = {shard_of(f"b/{index}", shard_count) for index in range(3)} - of_a
    assert set(np.flatnonzero(needs.constraint).tolist()) == of_a
    assert {needs.spread[shard] for shard in of_a} == {0}
    assert {needs.spread[shard] for shard in of_b} == {1}
    assert all(needs.spread[shard] == -1 for shard in set(range(shard_count)) - of_a - of_b)


def test_a_cell_without_jobs_asks_nothing():
    needs = shard_needs([], 3)
    assert needs.constraints == (ANYWHERE,)
    assert needs.priority.tolist() == [0, 0, 0]
    assert needs.move_seconds.tolist() == [0, 0, 0]
    assert needs.spread.tolist() == [-1, -1, -1]


def test_lost_members_are_no_containers_and_states_and_labels_count():
    members = [_member("c0"), _member("c1"), _member("c2"), _member("c3", live=False)]
    problem = _problem(
        members, [JobNeeds("j", 1, labels=frozenset({"ssd"}))], shards=1, states={"c0": State.CORDONED},
        labels={"c0": frozenset({"ssd"}), "c2": frozenset({"ssd"})},
    )  # fmt: skip
    assert problem.containers.names == ("c0", "c1", "c2")
    assert place(problem, {}).assignment == {0: "c2"}


def test_a_capacity_that_is_not_told_is_that_of_the_others_and_unbounded_where_nobody_tells():
    members = [_member(name) for name in ("c0", "c1", "c2")]
    problem = _problem(members, [], capacity={"c0": {"cpu": 2.0}, "c1": {"cpu": 4.0}})
    assert problem.containers.capacity.tolist() == [[2.0, UNBOUNDED], [4.0, UNBOUNDED], [3.0, UNBOUNDED]]


def test_a_dimension_without_capacities_is_shared_out_evenly():
    load = np.array([[0.9, 4e9], [0.3, 1e9], [0.3, 1e9], [0.3, 2e9]])
    answer = place(_problem([_member("c0"), _member("c1")], [], shards=4, load=load), {})
    assert answer.worst_band == pytest.approx(0.0)


def test_shards_without_a_place_make_one_alert_a_reason():
    """Shards with tasks of both regions; and a draining container whose shards have nowhere to go."""
    members = [_member("c0", "east"), _member("c1", "west")]
    both = place(_problem(members, [JobNeeds("a", 1, "east"), JobNeeds("b", 1, "west")], shards=1), {})
    assert alerts_of(both) == (PlacementAlert("no_container", "no container of region east and west", (0,)),)
    states = {"c0": State.DRAINING, "c1": State.CORDONED}
    stuck = place(_problem(members, [], shards=3, states=states), {0: "c0", 2: "c0"})
    closed = "every container is cordoned or drains"
    assert alerts_of(stuck) == (
        PlacementAlert("not_open", closed, (1,)),
        PlacementAlert("not_open", f"{closed}; it stays on c0, which drains", (0, 2)),
    )
