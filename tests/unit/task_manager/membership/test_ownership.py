"""Shards from messages that may be late, repeated or out of order."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.tasks.shards import Sharding
from services.task_manager.membership.ownership import Ownership, given_up, needs, with_adds, with_drops, with_map

OF_8 = Sharding(8)


@pytest.mark.parametrize(
    ("known", "shards", "version", "owned", "dropped"),
    [
        pytest.param(Ownership(), {1: 5}, 5, {1: 5}, {}, id="the first map"),
        pytest.param(Ownership({1: 5}, version=5), {}, 6, {}, {1: 5}, id="a shard that is no longer listed"),
        pytest.param(Ownership({1: 5}, version=5), {1: 7}, 7, {1: 7}, {}, id="a new epoch"),
        pytest.param(Ownership({1: 8}, version=5), {}, 7, {1: 8}, {}, id="an ADD that the map does not know yet"),
        pytest.param(Ownership({1: 5}, version=9), {}, 8, {1: 5}, {}, id="an old map changes nothing"),
        pytest.param(Ownership({}, {1: 5}, version=5), {1: 5}, 5, {}, {1: 5}, id="dropped under this epoch"),
        pytest.param(Ownership({}, {1: 5}, version=5), {1: 6}, 6, {1: 6}, {}, id="dropped and given anew"),
    ],
)
def test_full_maps(
    known: Ownership, shards: dict[int, int], version: int, owned: dict[int, int], dropped: dict[int, int]
) -> None:
    after = with_map(replace(known, sharding=OF_8), shards, version, {}, OF_8)
    assert (after.shards, after.dropped) == (owned, dropped)


@pytest.mark.parametrize(
    ("known", "orders", "owned", "applied"),
    [
        pytest.param(Ownership({1: 5}), {1: 5}, {}, {1}, id="the epoch it holds"),
        pytest.param(Ownership({1: 5}), {1: 4}, {1: 5}, set(), id="an order from before it was given anew"),
        pytest.param(Ownership(), {1: 5}, {}, {1}, id="not held: dropped already"),
    ],
)
def test_drops(known: Ownership, orders: dict[int, int], owned: dict[int, int], applied: set[int]) -> None:
    after = with_drops(known, orders, 5)
    assert (after.ownership.shards, after.applied) == (owned, applied)


@pytest.mark.parametrize(
    ("known", "orders", "owned", "applied"),
    [
        pytest.param(Ownership(), {1: 5}, {1: 5}, {1}, id="a new shard"),
        pytest.param(Ownership({1: 5}), {1: 5}, {1: 5}, {1}, id="the same again"),
        pytest.param(Ownership(version=6), {1: 5}, {}, set(), id="a newer map lacked it"),
        pytest.param(Ownership({}, {1: 5}), {1: 5}, {}, set(), id="dropped under this epoch"),
        pytest.param(Ownership({}, {1: 5}), {1: 6}, {1: 6}, {1}, id="dropped and given anew"),
    ],
)
def test_adds(known: Ownership, orders: dict[int, int], owned: dict[int, int], applied: set[int]) -> None:
    after = with_adds(known, orders, 5)
    assert (after.ownership.shards, after.applied) == (owned, applied)


def test_a_dropped_shard_is_forgotten_only_after_many_maps_without_it() -> None:
    known = with_drops(Ownership({1: 5}, version=5, sharding=OF_8), {1: 5}, 5).ownership
    for _ in range(11):
        known = with_map(known, {}, 6, known.dropped, OF_8)
        assert known.dropped == {1: 5}
    assert with_map(known, {1: 5}, 6, known.dropped, OF_8).shards == {}
    assert with_map(known, {1: 5}, 6, known.dropped, OF_8).unlisted == {}
    assert with_map(known, {}, 6, known.dropped, OF_8).dropped == {}


def test_a_shard_that_was_given_anew_is_not_given_up_for_an_older_epoch() -> None:
    assert given_up(Ownership({1: 6}), 1, 5).shards == {1: 6}
    assert given_up(Ownership({1: 5}), 1, 5).shards == {}


history = st.lists(st.booleans(), min_size=1, max_size=6)


@given(history)
def test_the_order_of_arrival_does_not_matter(owned_at: list[bool]) -> None:
    """A shard's owner changes at epochs 1, 2, ...; maps of all those moments and the ADDs arrive in any order."""
    maps = [({1: epoch} if ours else {}, epoch) for epoch, ours in enumerate(owned_at, start=1)]
    last = maps[-1]
    for late in list(permutations(maps))[:24]:
        known = Ownership(sharding=OF_8)
        for shards, version in late:
            if shards:
                known = with_adds(known, shards, version).ownership
            known = with_map(known, shards, version, {}, OF_8)
        assert known.shards == last[0]


def test_a_map_of_more_shards_takes_nothing_away_and_forgets_no_drop() -> None:
    """1. Of 8 shards 1 is held and 2 was dropped. 2. Each became two, with owner and epoch: the parts of 1 are held,
    those of 2 stay dropped. 3. An older map, of 8, changes nothing. 4. One part of 2 is given anew."""
    known = Ownership({1: 5}, {2: 6}, version=6, sharding=OF_8)
    after = with_map(known, {1: 5, 9: 5, 2: 6, 10: 6}, 7, {2: 6}, Sharding(16))
    assert (after.shards, after.dropped, after.unlisted) == ({1: 5, 9: 5}, {2: 6, 10: 6}, {})
    assert with_map(after, {1: 5, 2: 6}, 6, {}, OF_8) == after
    assert with_map(after, {1: 5, 9: 5, 2: 8}, 8, {}, Sharding(16)).shards == {1: 5, 9: 5, 2: 8}


def test_where_shards_became_one_the_map_alone_counts() -> None:
    known = Ownership({1: 5, 9: 6}, {2: 6}, version=6, sharding=Sharding(16))
    after = with_map(known, {1: 6, 2: 6}, 7, {2: 6}, OF_8)
    assert (after.shards, after.dropped, after.sharding) == ({1: 6, 2: 6}, {}, OF_8)


def test_a_late_map_of_a_count_that_was_in_between_undoes_no_order() -> None:
    """1. Shards 1 and 9 of 16 are held. 2. Unheard, they became one of 8, under epoch 6, and two of 16 again. 3. Both
    are dropped. 4. The maps come late: nothing of them is taken, until one is given anew."""
    held = Ownership({1: 6, 9: 5}, version=6, sharding=Sharding(16))
    known = with_drops(held, {1: 6, 9: 6}, version=8).ownership
    assert known.shards == {}
    assert with_map(known, {1: 6}, 7, {}, OF_8) == known
    again = with_map(known, {1: 6, 9: 6}, 8, {}, Sharding(16))
    assert again.shards == {}
    assert with_map(again, {1: 6, 9: 9}, 9, {}, Sharding(16)).shards == {9: 9}


@pytest.mark.parametrize(
    ("known", "before", "after", "needed"),
    [
        pytest.param({}, {}, {1: 5}, {1: 9}, id="a first shard"),
        pytest.param({}, {1: 5}, {1: 6, 2: 6}, {2: 9}, id="one is kept, one is new"),
        pytest.param({1: 4}, {1: 5}, {1: 6}, {1: 4}, id="one that is kept needs what it needed"),
        pytest.param({1: 4, 2: 4}, {1: 5, 2: 5}, {1: 5}, {1: 4}, id="one that is gone needs nothing"),
        pytest.param({1: 4}, {}, {1: 7}, {1: 9}, id="one that was gone is new"),
    ],
)
def test_new_shards_need_specs_as_new_as_a_stop_that_was_not_asked_about(
    known: dict[int, int], before: dict[int, int], after: dict[int, int], needed: dict[int, int]
) -> None:
    assert needs(known, Ownership(before, sharding=OF_8), Ownership(after, sharding=OF_8), 9) == needed


@pytest.mark.parametrize(
    ("count", "known", "before", "after", "needed"),
    [
        pytest.param(16, {}, {1: 5}, {1: 5, 9: 5}, {}, id="the parts of an owned shard"),
        pytest.param(16, {}, {1: 5}, {1: 5, 9: 5, 2: 6}, {2: 9}, id="and a new one"),
        pytest.param(16, {1: 12}, {1: 5}, {1: 5, 9: 5}, {1: 12, 9: 12}, id="the parts of one that waits"),
        pytest.param(4, {}, {1: 5, 5: 5}, {1: 5}, {}, id="a shard of parts that were owned"),
        pytest.param(4, {}, {1: 5}, {1: 5}, {1: 9}, id="a shard with a part that was not"),
        pytest.param(3, {}, {1: 5}, {1: 5}, {1: 9}, id="a count with other numbers"),
    ],
)
def test_needs_follow_the_shards_to_other_numbers(
    count: int, known: dict[int, int], before: dict[int, int], after: dict[int, int], needed: dict[int, int]
) -> None:
    assert needs(known, Ownership(before, sharding=OF_8), Ownership(after, sharding=Sharding(count)), 9) == needed
