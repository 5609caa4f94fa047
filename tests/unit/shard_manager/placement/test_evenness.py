"""Shards too large for any band: what they count, and what becomes of the others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.shard_manager.placement import balance
from services.shard_manager.placement.checks import check_counted
from services.shard_manager.placement.evenness import COUNTED, measure_of
from services.shard_manager.placement.frame import frame_of
from services.shard_manager.placement.place import place
from tests.support.shard_manager.fleets import changed, constrained, fleet
from tests.support.shard_manager.placement_problems import Container, Shard, problem_of
from tests.support.shard_manager.placements import DIMENSIONS, containers, shards

HOSTS = [Container(f"c{number}", {"cpu": 20.0}) for number in range(4)]


@pytest.mark.parametrize(
    ("large", "level"),
    [([], 9 / 4), ([1.0], 10 / 4), ([9.0], 9 / (4 - COUNTED)), ([9.0, 7.0], 9 / (4 - 2 * COUNTED))],
    ids=["none", "within the band", "one", "two"],
)
def test_the_others_are_judged_by_what_oversized_shards_leave(large, level):
    """Four containers, of which each would have 9 / 4 of small shards; oversized ones take a part of one each."""
    sizes = [*[0.3] * 30, *large]
    problem = problem_of(HOSTS, [Shard(row, {"cpu": size}) for row, size in enumerate(sizes)], dimensions=["cpu"])
    holder = np.arange(len(sizes)) % 4
    measure = measure_of(frame_of(problem, holder), holder)
    assert measure.columns[0, :-1].tolist() == pytest.approx([size if size <= 1 else COUNTED * level for size in sizes])
    assert measure.scale[:, 0].tolist() == pytest.approx([1 / level] * 4)


def test_two_oversized_shards_on_one_container_are_put_apart():
    rows = [Shard(row, {"cpu": 0.3}) for row in range(30)] + [Shard(30, {"cpu": 9.0}), Shard(31, {"cpu": 8.0})]
    before = {row.id: f"c{row.id % 4}" for row in rows} | {30: "c0", 31: "c0"}
    answer = place(problem_of(HOSTS, rows, dimensions=["cpu"]), before)
    assert answer.assignment[30] != answer.assignment[31]
    assert answer.converged


@settings(max_examples=2 * settings.default.max_examples, deadline=None)
@given(containers(), shards(), st.lists(st.integers(-1, 5), min_size=16, max_size=16))
def test_nothing_counts_more_than_it_takes(hosts, rows, where):
    holder = np.minimum(np.array(where[: len(rows)], dtype=np.int64), len(hosts) - 1)
    frame = frame_of(problem_of(hosts, rows, dimensions=DIMENSIONS), holder)
    check_counted(frame, measure_of(frame, holder))


def test_a_story_of_a_cell_with_oversized_shards():
    """3,000 shards on 90 containers, every thousandth of which takes 60 % of one where the mean is 30 %.

    1. Placed: the others' containers are level, and it is not placed again for those that cannot be. 2. Loads change:
    so it is again. 3. Each is a fixed point.
    """
    problem = _with_oversized(fleet(3_000, 90))
    first = place(problem, {})
    later = _with_oversized(changed(problem, 0.1))
    again = place(later, first.assignment)
    for case, answer in ((problem, first), (later, again)):
        assert answer.converged
        assert answer.worst_band > 0.5
        assert _unevenness_of_others(case, answer.holder) <= 0.11
        assert place(case, answer.assignment).assignment == answer.assignment
    assert len(again.moved) <= 0.02 * 3_000


def _with_oversized(problem):
    """Containers that are 30 % full on average, and every thousandth shard 60 % of one in cpu and network."""
    load = problem.shards.load.copy()
    usable = load.sum(axis=0) / len(problem.containers.names) / 0.3
    load[::1000, [0, 3]] = 0.6 * usable[[0, 3]]
    capacity = np.tile(usable / 0.9, (len(problem.containers.names), 1))
    return replace(
        problem,
        containers=replace(problem.containers, capacity=capacity),
        shards=replace(problem.shards, load=load),
    )


def _unevenness_of_others(problem, holder) -> float:
    """How far containers without an oversized shard are from the mean of these, at most."""
    total = np.zeros_like(problem.containers.capacity)
    np.add.at(total, holder, problem.shards.load)
    others = np.delete(total, np.unique(holder[::1000]), axis=0)
    return float(np.abs(others / others.mean(axis=0) - 1).max())


def test_a_search_that_is_cut_goes_on_while_it_gains_by_it(monkeypatch):
    """With a single round a placement: 1. the first takes much away, so another one follows soon. 2. They end by
    themselves, before nothing is left to do. 3. A budget that ends one is a reason to go on, whatever it gained."""
    problem = constrained(fleet(3_000, 90, full=0.3, largest=0.6))
    first = place(problem, {})
    monkeypatch.setattr(balance, "_MOST_ROUNDS", 1)
    later = changed(problem, 0.3, largest=0.6)
    answer = place(later, first.assignment)
    assert (answer.converged, answer.worth_continuing) == (False, True)
    count = 1
    while answer.worth_continuing and count < 50:
        answer, count = place(later, answer.assignment), count + 1
    assert not answer.worth_continuing
    assert not answer.converged
    last = replace(changed(later, 0.3, largest=0.6), move_budget=2)
    assert place(last, answer.assignment).worth_continuing


def test_a_placement_that_changed_nothing_is_not_made_again_for_want_of_budget():
    """Two containers whose only improvement is a swap: two moves, with a budget of one. As after a fail-over, a
    placement that had no budget is followed by one that has."""
    problem = constrained(fleet(4, 2, full=0.5))
    capacity = np.full_like(problem.containers.capacity, 50.0)
    load = np.ones_like(problem.shards.load) * np.array([[8.0], [8.0], [5.0], [3.0]])
    problem = replace(
        problem,
        containers=replace(problem.containers, capacity=capacity),
        shards=replace(problem.shards, load=load),
    )
    names = problem.containers.names
    before = dict(zip(problem.shards.ids.tolist(), (names[0], names[0], names[1], names[1]), strict=True))
    answers = {budget: place(replace(problem, move_budget=budget), before) for budget in (0, 1, 2)}
    assert {budget: answer.assignment != before for budget, answer in answers.items()} == {0: False, 1: False, 2: True}
    assert {budget: answer.worth_continuing for budget, answer in answers.items()} == {0: True, 1: False, 2: False}
