"""Task to shard. The golden values were computed by `md5sum`, apart from this code."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.tasks.shards import shard_of
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
