"""Properties of the even spread."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.shard_manager.spread import spread

NAMES = st.sets(st.sampled_from([f"container-{n}" for n in range(12)]), max_size=8)
SHARDS = st.integers(min_value=0, max_value=64).map(range)
PREVIOUS = st.dictionaries(
    st.integers(min_value=0, max_value=80), st.sampled_from([f"container-{n}" for n in range(12)]), max_size=80
)


@given(SHARDS, NAMES, PREVIOUS)
def test_every_shard_has_a_container_and_counts_differ_by_one_at_most(shards, containers, previous):
    assignment = spread(shards, containers, previous)
    if not containers:
        assert assignment == {}
        return
    counts = Counter(assignment.values())
    assert assignment.keys() == set(shards)
    assert counts.keys() <= containers
    assert max(counts[name] for name in containers) - min(counts[name] for name in containers) <= 1


@given(SHARDS, NAMES, PREVIOUS)
def test_the_spread_is_a_fixed_point_of_itself(shards, containers, previous):
    once = spread(shards, containers, previous)
    assert spread(shards, containers, once) == once


@given(SHARDS, NAMES, PREVIOUS, st.randoms(use_true_random=False))
def test_order_of_the_arguments_does_not_matter(shards, containers, previous, random):
    names, items = list(containers), list(previous.items())
    random.shuffle(names)
    random.shuffle(items)
    assert spread(list(shards)[::-1], names, dict(items)) == spread(shards, containers, previous)


@given(SHARDS, NAMES, PREVIOUS)
def test_no_spread_moves_fewer_shards(shards, containers, previous):
    """Any even spread leaves at most min(count, quota) shards on each container, the odd ones where most are."""
    if not containers:
        return
    assignment = spread(shards, containers, previous)
    present = Counter(previous[shard] for shard in shards if previous.get(shard) in containers)
    each, odd = divmod(len(shards), len(containers))
    counts = sorted((present[name] for name in containers), reverse=True)
    most_kept = sum(min(count, each + (place < odd)) for place, count in enumerate(counts))
    kept = sum(previous.get(shard) == container for shard, container in assignment.items())
    assert kept == most_kept


@pytest.mark.parametrize(
    ("shards", "containers", "previous", "expected"),
    [
        (3, "a", {}, "aaa"),
        (4, "ab", {}, "abab"),
        (4, "ab", {0: "a", 1: "a", 2: "a", 3: "a"}, "aabb"),
        (4, "ab", {0: "a", 1: "b", 2: "gone", 3: "gone"}, "abab"),
        (5, "ab", {0: "b", 1: "b", 2: "b", 3: "a", 4: "a"}, "bbbaa"),
    ],
)
def test_small_spreads(shards, containers, previous, expected):
    assert (
        "".join(container for _, container in sorted(spread(range(shards), containers, previous).items())) == expected
    )
