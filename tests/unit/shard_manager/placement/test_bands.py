"""Bands: reached where that is possible, with few moves, in every dimension, at a size that is like a cell's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from penstock.tasks.taking import Constraint
from services.shard_manager.placement.place import Placement, place
from services.shard_manager.placement.problem import Problem
from tests.support.shard_manager.fleets import changed, constrained, fleet, without
from tests.support.shard_manager.placement_problems import Container, Shard, problem_of
from tests.support.shard_manager.placements import DIMENSIONS, best_possible, worst_deviation

_LOADS = st.fixed_dictionaries({"cpu": st.sampled_from([0.5, 1.0, 1.2, 1.5, 2.0, 2.2]), "gpu": st.integers(0, 2)})


@settings(max_examples=2 * settings.default.max_examples, deadline=None)
@given(st.integers(1, 3), st.lists(_LOADS, min_size=2, max_size=7), st.data())
def test_a_tiny_cell_is_within_its_band_where_that_is_possible(count, loads, data):
    hosts = [Container(f"c{number}", dict.fromkeys(DIMENSIONS, 12.0)) for number in range(count)]
    rows = [Shard(number, load) for number, load in enumerate(loads)]
    assume(best_possible(hosts, rows) <= 0.1)
    names = st.sampled_from([host.name for host in hosts])
    before = data.draw(st.dictionaries(st.integers(0, 7), names))
    answer = place(problem_of(hosts, rows, dimensions=DIMENSIONS), before)
    assert worst_deviation(hosts, rows, answer.assignment) <= 0.1 + 1e-9


@pytest.mark.parametrize("shape", [lambda problem: problem, constrained], ids=["plain", "constrained"])
def test_a_story_of_a_cell(shape):
    """3,000 shards on 90 containers: 1. placed; 2. loads change; 3. containers are lost; each is a fixed point."""
    problem = shape(fleet(3_000, 90))
    first = place(problem, {})
    later = changed(problem, 0.1)
    again = place(later, first.assignment)
    lost = without(later, np.arange(90) % 30 == 0)
    after = place(lost, again.assignment)
    for case, answer in ((problem, first), (later, again), (lost, after)):
        assert answer.unplaceable == ()
        assert answer.worst_band <= 0.1 + 1e-9
        assert place(case, answer.assignment).assignment == answer.assignment
    assert len(again.moved) <= 0.01 * 3_000
    assert _beside_their_own(first, problem) == 0


def _beside_their_own(answer: Placement, problem: Problem) -> int:
    """How many shards are on a container with an earlier one of their job."""
    job = problem.shards.spread
    taken = {(group, holder) for group, holder in zip(job.tolist(), answer.holder.tolist(), strict=True) if group >= 0}
    return int((job >= 0).sum()) - len(taken)


@pytest.mark.parametrize("count", [2, 4])
def test_a_container_that_is_empty_gets_its_part_of_many_small_shards(count):
    """After a drain. No single shard takes away a hundredth of the imbalance, and those with tasks are few of many."""
    hosts = [Container(f"c{number}", dict.fromkeys(DIMENSIONS, 20.0)) for number in range(count)]
    loads = [dict.fromkeys(DIMENSIONS, 0.002), {"cpu": 0.2, "gpu": 0.002}]
    rows = [Shard(number, loads[number % 32 == 31]) for number in range(512)]
    problem = problem_of(hosts, rows, dimensions=DIMENSIONS)
    before = {number: f"c{1 + number % (count - 1)}" for number in range(512)}
    answer = place(problem, before)
    assert answer.worst_band <= 0.1 + 1e-9
    assert len(answer.moved) <= 1.2 * 512 / count
    assert place(problem, answer.assignment).assignment == answer.assignment


def test_a_container_that_was_emptied_is_filled_with_few_moves():
    """To the edge of the band: only while it is far off is a move of little help made."""
    problem = fleet(1_024, 4)
    names = problem.containers.names
    before = {
        shard: names[1 + shard % 3] if holder == names[0] else holder
        for shard, holder in place(problem, {}).assignment.items()
    }
    answer = place(problem, before)
    assert answer.worst_band <= 0.1 + 1e-9
    assert len(answer.moved) <= 0.7 * 1_024 / 4


def test_what_is_moved_in_one_tier_does_not_depend_on_the_loads_in_another():
    """A container of each tier is empty. The shards of the other tier are smaller or larger, all in proportion."""
    found = set()
    for factor in (0.01, 100.0):
        regions = {"here": 1.0, "there": factor}
        hosts = [
            Container(f"{region}{number}", dict.fromkeys(DIMENSIONS, 100.0 * max(1.0, size)), region)
            for region, size in regions.items()
            for number in range(2)
        ]
        rows = [
            Shard(
                number * 2 + place_of,
                {"cpu": (0.1 + number % 32 / 50) * size, "gpu": 0.1 * size},
                Constraint(frozenset([region])),
            )
            for place_of, (region, size) in enumerate(regions.items())
            for number in range(96)
        ]
        before = {row.id: f"{'there' if row.id % 2 else 'here'}1" for row in rows}
        found.add(
            tuple(shard for shard in place(problem_of(hosts, rows, dimensions=DIMENSIONS), before).moved.tolist())
        )
    assert len(found) == 1
