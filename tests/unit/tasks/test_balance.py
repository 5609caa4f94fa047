"""Ranges by measured traffic: against brute force, and what is done about the unknown."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config.keygroups import even_bounds, ranges
from penstock.tasks.balance import completed, load, proposal, propose

LOADS = st.lists(st.integers(0, 50) | st.sampled_from([0, 0, 1000]), min_size=1, max_size=9)


def largest(loads: Sequence[float], bounds: tuple[int, ...]) -> float:
    return load(loads, ranges(len(loads), len(bounds) + 1, bounds)).largest


@given(LOADS, st.data())
def test_no_other_bounds_are_better_and_none_of_the_best_are_nearer_to_even_ones(
    loads: list[float], data: st.DataObject
) -> None:
    tasks = data.draw(st.integers(1, len(loads)))
    found = propose(loads, tasks)
    every = list(combinations(range(1, len(loads)), tasks - 1))
    least = min(largest(loads, bounds) for bounds in every)
    best = [bounds for bounds in every if largest(loads, bounds) == least]
    assert found in best
    even = even_bounds(len(loads), tasks)
    assert found == min(best, key=lambda bounds: [abs(a - b) for a, b in zip(bounds, even, strict=True)])


@given(st.integers(1, 300), st.floats(0, 1e9), st.data())
def test_equal_loads_give_even_ranges(key_groups: int, rate: float, data: st.DataObject) -> None:
    tasks = data.draw(st.integers(1, key_groups))
    assert propose([rate] * key_groups, tasks) == even_bounds(key_groups, tasks)


@given(st.lists(st.floats(0, 1e7), min_size=2, max_size=300), st.data())
def test_ranges_are_never_worse_than_even_ones_and_never_empty(loads: list[float], data: st.DataObject) -> None:
    tasks = data.draw(st.integers(1, len(loads)))
    found = propose(loads, tasks)
    even = load(loads, ranges(len(loads), tasks)).largest
    assert len(found) == tasks - 1
    assert largest(loads, found) <= even + 1e-6 * len(loads) + 1e-9 * even


@pytest.mark.parametrize("tasks", [0, 4])
def test_a_task_without_input_is_never_proposed(tasks: int) -> None:
    with pytest.raises(ValueError, match="task_count must be between"):
        propose([1.0, 2.0, 3.0], tasks)


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ([1.0, 3.0], [1.0, 3.0]),
        ([1.0, None, 3.0, None], [1.0, 2.0, 3.0, 2.0]),
        ([1.0, None, None], None),
        ([None], None),
        ([], None),
    ],
)
def test_the_unknown_is_the_mean_of_what_is_known_or_too_much(
    rates: list[float | None], expected: list[float] | None
) -> None:
    assert completed(rates) == expected


def test_what_a_proposal_gains() -> None:
    found = proposal([60.0, 20.0, 10.0, 10.0], 2, ranges(4, 2))
    assert found is not None
    assert found.bounds == (1,)
    assert (found.before.largest, found.before.imbalance) == (80.0, 1.6)
    assert (found.after.largest, found.after.imbalance) == (60.0, 1.2)
    assert found.gain == pytest.approx(0.25)


def test_nothing_is_gained_where_nothing_comes_in() -> None:
    found = proposal([0.0] * 4, 2, ranges(4, 2))
    assert found is not None
    assert (found.gain, found.after.imbalance) == (0.0, 1.0)


def test_too_little_is_known_for_a_proposal() -> None:
    assert proposal([1.0, None, None], 2, ranges(3, 2)) is None
