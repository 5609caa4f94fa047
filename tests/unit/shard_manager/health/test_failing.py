"""Containers that do not take their shards: told from their heartbeats alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.shard_manager.health.failing import Late, UntakenShards, may_set_aside, most_aside

LIMIT = 30.0


def beat(
    untaken: UntakenShards,
    at: float,
    held: dict[int, int],
    expected: dict[int, int],
    dropped: dict[int, int] | None = None,
    container: str = "c1",
) -> UntakenShards:
    untaken.hear(container, held, dropped or {}, expected, at)
    return untaken


def beats(held: dict[int, int], expected: dict[int, int], dropped: dict[int, int] | None = None) -> UntakenShards:
    """Heartbeats from 100 to 120, the last of them before the limit."""
    untaken = UntakenShards(LIMIT)
    for at in (100.0, 110.0, 120.0):
        beat(untaken, at, held, expected, dropped)
    return untaken


def test_a_shard_that_no_heartbeat_holds_is_late_after_the_limit() -> None:
    expected = {1: 5, 2: 6, 3: 6}
    untaken = beats({1: 5}, expected)
    beat(untaken, 129.9, {1: 5}, expected)
    assert untaken.late() == {}
    beat(untaken, 130.0, {1: 5}, expected)
    assert untaken.late() == {"c1": Late(2, 30.0)}
    untaken.forget("c1")
    assert untaken.late() == {}


@pytest.mark.parametrize(
    ("held", "dropped", "expected"),
    [
        pytest.param({2: 6}, {}, {2: 6}, id="it holds it now"),
        pytest.param({2: 7}, {}, {2: 6}, id="it knows a newer epoch than this leader"),
        pytest.param({}, {2: 6}, {2: 6}, id="it dropped it"),
        pytest.param({}, {}, {2: 7}, id="it was given anew: the time begins anew"),
        pytest.param({}, {}, {}, id="it is not its own any more, or answers leave it out"),
    ],
)
def test_a_shard_is_not_late(held: dict[int, int], dropped: dict[int, int], expected: dict[int, int]) -> None:
    assert beat(beats({}, {2: 6}), 130.0, held, expected, dropped).late() == {}


@pytest.mark.parametrize(("held", "dropped"), [({2: 5}, {}), ({}, {2: 5})], ids=["held", "dropped"])
def test_what_it_says_of_an_older_epoch_is_no_excuse(held: dict[int, int], dropped: dict[int, int]) -> None:
    untaken = beats(held, {2: 6}, dropped)
    assert beat(untaken, 130.0, held, {2: 6}, dropped).late() == {"c1": Late(1, 30.0)}


def test_silence_is_not_evidence() -> None:
    """Only what heartbeats said counts: long after the last of them nothing more is known."""
    assert beat(beats({}, {2: 6}), 500.0, {}, {}, container="c2").late() == {}


def test_a_gap_between_heartbeats_is_weak_evidence() -> None:
    """A container that did not reach the leader for 39 s could not hear of the shard either."""
    untaken = UntakenShards(LIMIT)
    for at in (100.0, 139.0):
        beat(untaken, at, {}, {2: 6})
    assert untaken.late() == {}
    assert untaken.nearly_late() == frozenset()


@given(st.lists(st.floats(0.1, 60.0), min_size=1, max_size=30))
def test_of_containers_with_a_common_fault_all_are_nearly_late_when_the_first_is_late(gaps: list[float]) -> None:
    """Whatever stalls there are between rounds of heartbeats, and wherever in a round the check comes."""
    untaken, now = UntakenShards(LIMIT), 0.0
    for gap in (0.0, *gaps):
        now += gap
        for container in ("c1", "c2"):
            beat(untaken, now, {}, {2: 6}, container=container)
            assert not untaken.late() or untaken.nearly_late() == {"c1", "c2"}


@pytest.mark.parametrize(
    ("late", "nearly", "taking", "most", "may"),
    [
        pytest.param("a", "a", "abc", 1, True, id="one"),
        pytest.param("ba", "b", "abc", 2, True, id="as many as may be"),
        pytest.param("ab", "ab", "abc", 1, False, id="so many that it is not their fault"),
        pytest.param("a", "", "a", 1, False, id="nobody else is there"),
        pytest.param("a", "", "bc", 1, True, id="one that takes no shards any more"),
        pytest.param("a", "b", "abc", 1, False, id="others will be late soon, too"),
    ],
)
def test_who_is_set_aside(late: str, nearly: str, taking: str, most: int, may: bool) -> None:
    assert may_set_aside(tuple(late), tuple(nearly), tuple(taking), most) is may


def test_one_container_may_always_be_set_aside_and_a_share_of_many() -> None:
    assert [most_aside(live, 0.1) for live in (1, 9, 10, 29, 3000)] == [1, 1, 1, 2, 300]
