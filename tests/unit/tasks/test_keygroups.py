"""Key groups to tasks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config.keygroups import KeyGroupRange, bounds_in_force, ranges


@pytest.mark.parametrize(
    ("key_groups", "task_count", "expected"),
    [
        (1, 1, [(0, 1)]),
        (8, 1, [(0, 8)]),
        (8, 2, [(0, 4), (4, 8)]),
        (8, 3, [(0, 2), (2, 5), (5, 8)]),
        (3, 3, [(0, 1), (1, 2), (2, 3)]),
    ],
)
def test_ranges(key_groups: int, task_count: int, expected: list[tuple[int, int]]) -> None:
    assert list(ranges(key_groups, task_count)) == expected


@given(st.data())
def test_ranges_part_the_key_groups_evenly(data: st.DataObject) -> None:
    key_groups = data.draw(st.integers(1, 2000))
    task_count = data.draw(st.integers(1, key_groups))
    found = ranges(key_groups, task_count)
    sizes = [part.hi - part.lo for part in found]
    assert len(found) == task_count
    assert [group for part in found for group in part.members()] == list(range(key_groups))
    assert min(sizes) >= 1
    assert max(sizes) - min(sizes) <= 1


@given(st.integers(1, 500), st.integers(1, 8))
def test_splitting_every_task_in_equal_parts_moves_no_boundary(task_count: int, factor: int) -> None:
    key_groups = task_count * factor
    before = {part.lo for part in ranges(key_groups, task_count)}
    after = {part.lo for part in ranges(key_groups, task_count * factor)}
    assert before <= after


@pytest.mark.parametrize(("key_groups", "task_count"), [(8, 0), (8, 9), (8, -1), (0, 1), (0, 0)])
def test_a_task_without_input_is_never_made(key_groups: int, task_count: int) -> None:
    with pytest.raises(ValueError, match="task_count must be between"):
        ranges(key_groups, task_count)


def test_members() -> None:
    assert list(KeyGroupRange(2, 5).members()) == [2, 3, 4]


@pytest.mark.parametrize(
    ("task_count", "bounds", "expected"),
    [
        pytest.param(3, (1, 2), [(0, 1), (1, 2), (2, 8)], id="as the bounds say"),
        pytest.param(2, (4,), [(0, 4), (4, 8)], id="the even ones"),
        pytest.param(2, (1, 2), [(0, 4), (4, 8)], id="of more tasks: ignored"),
        pytest.param(4, (1, 2), [(0, 2), (2, 4), (4, 6), (6, 8)], id="of fewer tasks: ignored"),
        pytest.param(1, (3,), [(0, 8)], id="one task has no bounds"),
    ],
)
def test_ranges_with_bounds(task_count: int, bounds: tuple[int, ...], expected: list[tuple[int, int]]) -> None:
    assert list(ranges(8, task_count, bounds)) == expected


@given(st.data())
def test_bounds_in_force_are_where_ranges_begin(data: st.DataObject) -> None:
    key_groups = data.draw(st.integers(2, 200))
    inner = data.draw(st.lists(st.integers(1, key_groups - 1), min_size=1, unique=True).map(sorted))
    found = ranges(key_groups, len(inner) + 1, inner)
    assert [part.lo for part in found] == [0, *inner]
    assert [group for part in found for group in part.members()] == list(range(key_groups))
    in_force = bounds_in_force(key_groups, len(inner) + 1, inner)
    assert (in_force is None) == (found == ranges(key_groups, len(inner) + 1))


@pytest.mark.parametrize("bounds", [(2, 2), (3, 1), (0, 4), (4, 8), (4, 9)])
def test_bounds_that_leave_a_range_empty_are_refused(bounds: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="leave a range empty"):
        ranges(8, 3, bounds)
