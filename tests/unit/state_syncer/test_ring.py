"""Consistent hashing: even enough, stable, and everybody has a turn."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from services.state_syncer.host_tasks.ring import Ring

JOBS = [f"job-{number}" for number in range(1000)]
NAMES = [f"container-{number}" for number in range(10)]


def test_every_name_has_its_share() -> None:
    shares = Counter(Ring(NAMES).choose(job, 0) for job in JOBS)
    assert set(shares) == set(NAMES)
    assert max(shares.values()) < 3 * len(JOBS) / len(NAMES)


def test_only_what_a_name_had_changes_hands_when_it_goes() -> None:
    before, after = Ring(NAMES), Ring(NAMES[1:])
    moved = [job for job in JOBS if before.choose(job, 0) != after.choose(job, 0)]
    assert {before.choose(job, 0) for job in moved} == {NAMES[0]}


@given(names=st.sets(st.text(max_size=5), min_size=1, max_size=8), key=st.text(), failures=st.integers(0, 100))
def test_each_failure_brings_another_until_all_had_their_turn(names: set[str], key: str, failures: int) -> None:
    ring = Ring(names)
    assert {ring.choose(key, failures + turn) for turn in range(len(names))} == names


def test_nobody_is_chosen_of_none() -> None:
    assert Ring([]).choose("job", 0) is None
