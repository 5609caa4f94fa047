"""Tiers: shards that may be anywhere follow when another region becomes emptier, and none moves in vain."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.tasks.taking import Constraint
from services.shard_manager.placement.place import place
from tests.support.shard_manager.fleets import constrained, fleet, without
from tests.support.shard_manager.placement_problems import Container, Shard, problem_of
from tests.support.shard_manager.placements import used

EAST, WEST = Constraint(frozenset({"east"})), Constraint(frozenset({"west"}))


def test_a_story_of_a_region_that_comes_back():
    """1. A region of three is lost, and 2. comes back empty: it fills, and every tier is level. 3. With a budget it
    does so a round at a time, as far as without one. 4. Nothing moves then."""
    problem = constrained(fleet(3_000, 90))
    lost = place(without(problem, np.arange(90) % 3 == 0), place(problem, {}).assignment)
    at_once = place(problem, lost.assignment)
    gradual, bounded = lost, replace(problem, move_budget=200)
    for _ in range(10):
        gradual = place(bounded, gradual.assignment)
        assert len(gradual.moved) <= 200
        if gradual.converged:
            break
    for answer in (at_once, gradual):
        assert answer.converged
        assert answer.worst_band <= 0.1 + 1e-9
        assert _worst_level(problem, answer.holder) <= 0.1 + 1e-9
        assert place(problem, answer.assignment).moved.tolist() == []


def test_a_budget_far_below_what_is_needed_is_enough_in_time():
    """Three moves a round, of some 270 that are needed: each round helps by far less than a step without a budget."""
    rows = [Shard(0, {"cpu": 0.1}, constraint=EAST), Shard(1, {"cpu": 0.1}, constraint=WEST)]
    rows += [Shard(row, {"cpu": 0.1}) for row in range(2, 600)]
    problem = problem_of(_hosts(1), rows, dimensions=["cpu"], move_budget=3)
    answer = place(problem, {row.id: "west0" if row.id == 1 else "east0" for row in rows})
    rounds = 1
    while not answer.converged and rounds < 120:
        assert len(answer.moved) in (1, 2, 3)
        answer, rounds = place(problem, answer.assignment), rounds + 1
    assert answer.converged
    assert answer.holder.mean() == pytest.approx(0.5, abs=0.05)


def test_bound_shards_do_not_keep_a_placement_from_coming_to_rest():
    """East is full of its own: what may leave has left, and nothing moves any more."""
    bound = [Shard(row, {"cpu": 1.0}, constraint=EAST) for row in range(12)]
    others = [Shard(row, {"cpu": 1.0}, constraint=WEST) for row in range(12, 15)]
    free = [Shard(row, {"cpu": 1.0}) for row in range(15, 18)]
    problem = problem_of(_hosts(2), [*bound, *others, *free], dimensions=["cpu"])
    before = {row: f"east{row % 2}" for row in range(18) if row not in range(12, 15)}
    answer = place(problem, before | dict.fromkeys(range(12, 15), "west0"))
    assert {answer.assignment[row][:4] for row in range(15, 18)} == {"west"}
    assert answer.converged
    assert place(problem, answer.assignment).moved.tolist() == []


def test_a_shard_does_not_go_beside_its_own():
    """The only shard that may leave east would come beside a shard of its job."""
    rows = [
        Shard(0, {"cpu": 1.0}, constraint=WEST, job="x"),
        Shard(1, {"cpu": 1.0}, constraint=WEST, job="x"),
        Shard(2, {"cpu": 1.0}, job="x"),
        *[Shard(row, {"cpu": 1.0}, constraint=EAST) for row in range(3, 8)],
    ]
    where = {0: "west0", 1: "west1", 2: "east0", **{row: f"east{row % 2}" for row in range(3, 8)}}
    answer = place(problem_of(_hosts(2), rows, dimensions=["cpu"]), where)
    assert answer.moved.tolist() == []
    assert answer.converged


@given(st.lists(st.tuples(st.sampled_from([EAST, WEST, Constraint()]), st.integers(1, 6)), max_size=14), st.data())
def test_no_shard_that_would_level_two_regions_stays_behind(shards, data):
    """Where a region is out of band, no single shard that may leave it would take a fifth of that away."""
    kinds = [(EAST, 1), (WEST, 1), *shards]
    rows = [Shard(row, {"cpu": float(load)}, constraint=where) for row, (where, load) in enumerate(kinds)]
    before = data.draw(st.dictionaries(st.integers(0, 14), st.sampled_from(["east0", "east1", "west0", "west1"])))
    answer = place(problem_of(_hosts(2), rows, dimensions=["cpu"]), before)
    sums = used(rows, answer.assignment)
    east, west = (sum(sums[f"{region}{row}"]["cpu"] for row in range(2)) for region in ("east", "west"))
    off, fuller = abs(east - west) / (east + west), "east" if east > west else "west"
    for row in rows if off > 0.1 else []:
        if row.constraint == Constraint() and answer.assignment[row.id].startswith(fuller):
            assert abs(abs(east - west) - 2 * row.load["cpu"]) / (east + west) > 0.8 * off


def _hosts(count: int) -> list[Container]:
    return [
        Container(f"{region}{row}", {"cpu": 200.0}, region=region)
        for region in ("east", "west")
        for row in range(count)
    ]


def _worst_level(problem, holder) -> float:
    """How far any region's load is from the cell's, as a share of it, in any dimension."""
    total = np.zeros_like(problem.containers.capacity)
    np.add.at(total, holder, problem.shards.load)
    region, names = problem.containers.region, problem.containers.region_names
    load, capacity = (
        np.stack([table[region == row].sum(axis=0) for row in range(len(names))])
        for table in (total, problem.containers.capacity)
    )
    level = load / capacity
    return float(np.abs(level / (load.sum(axis=0) / capacity.sum(axis=0)) - 1).max())
