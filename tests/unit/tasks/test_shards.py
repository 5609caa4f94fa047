"""Task to shard. The golden values were computed by `md5sum`, apart from this code."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.tasks.shards import SLOTS, Sharding, shard_of
from penstock.tasks.spec import task_id


@pytest.mark.parametrize(
    ("task", "shards_of_16", "shards_of_1000", "shards_of_100000"),
    [
        ("flights/0", 11, 899, 87899),
        ("flights/1", 1, 481, 88481),
        ("team.clean/31", 13, 445, 54445),
        ("a/0", 10, 202, 12202),
    ],
)
def test_golden_values(task: str, shards_of_16: int, shards_of_1000: int, shards_of_100000: int) -> None:
    found = [shard_of(task, shard_count) for shard_count in (16, 1000, 100_000)]
    assert found == [shards_of_16, shards_of_1000, shards_of_100000]


@given(st.text(), st.integers(1, 100_000))
def test_in_range(task: str, shard_count: int) -> None:
    assert 0 <= shard_of(task, shard_count) < shard_count


def test_the_same_in_another_process_with_another_hash_seed() -> None:
    program = "from penstock.tasks.shards import shard_of; print(shard_of('flights/0', 100000))"
    answer = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONHASHSEED": "7"}, capture_output=True, text=True, check=True
    )
    assert int(answer.stdout) == shard_of("flights/0", 100_000)


def test_tasks_spread_over_the_shards() -> None:
    counts = Counter(shard_of(task_id(f"job-{job}", index), 64) for job in range(1000) for index in range(8))
    assert len(counts) == 64
    assert 80 <= min(counts.values()) <= 125 <= max(counts.values()) <= 170


REGIONS = tuple(f"r{place}" for place in range(SLOTS))
counts, regions = st.integers(1, 10_000), st.sampled_from((None, *REGIONS))


@given(st.text(), regions, counts, st.integers(1, 20))
def test_the_parts_of_a_shard_share_out_its_tasks(task: str, region: str | None, count: int, times: int) -> None:
    """In either direction: what makes it one write to have more shards, or fewer."""
    few, many = Sharding(count, REGIONS), Sharding(count * times, REGIONS)
    whole, part = few.shard_of(task, region), many.shard_of(task, region)
    assert whole is not None
    assert part is not None
    assert part % count == whole
    assert few.is_refined_by(many)
    assert part in few.refined({whole: "mine"}, many.count)


@given(st.text(), st.text(), st.sampled_from(REGIONS), st.sampled_from(REGIONS), st.integers(1, 100))
def test_regions_never_meet_in_a_shard(one: str, other: str, here: str, there: str, times: int) -> None:
    sharding = Sharding(SLOTS * times, REGIONS)
    first, second = sharding.shard_of(one, here), sharding.shard_of(other, there)
    assert here == there or first != second
    assert first is not None
    assert first % SLOTS == REGIONS.index(here)


@given(st.text(), regions, counts, st.integers(0, SLOTS))
def test_another_region_changes_nothing_for_the_others(task: str, region: str | None, count: int, known: int) -> None:
    before = Sharding(count, REGIONS[:known])
    after = before.with_selectors({"new", *REGIONS[:known]})
    assert after.selectors[:known] == before.selectors
    has_place = region is None or region in before.selectors
    assert after.shard_of(task, region) == before.shard_of(task, region)
    assert (before.shard_of(task, region) is not None) == has_place
    if region is None:
        assert before.shard_of(task) == shard_of(task, count)


def test_regions_have_places_in_the_order_in_which_they_came() -> None:
    sharding = Sharding(64).with_selectors({"south", "north"}).with_selectors({"east", "north"})
    assert sharding.selectors == ("north", "south", "east")
    full = sharding.with_selectors({f"r{number:02}" for number in range(99)})
    assert (len(full.selectors), full.selectors[:4]) == (SLOTS, ("north", "south", "east", "r00"))
    assert full.with_selectors({"one more"}) == full


@pytest.mark.parametrize(("task", "shard_of_64"), [("flights/0", 59), ("flights/1", 33), ("a/0", 42)])
def test_golden_values_of_a_region(task: str, shard_of_64: int) -> None:
    """By `md5sum`: the last hexadecimal digit gives way to the region's place."""
    place = shard_of_64 % SLOTS
    assert shard_of(task, 64) == shard_of_64
    assert Sharding(64, REGIONS).shard_of(task, "r5") == shard_of_64 - place + 5
