"""Key groups to tasks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.tasks.keygroups import KeyGroupRange, ranges


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
