"""Containers that do not take their shards: told from their heartbeats alone."""

from __future__ import annotations

import pytest

from services.shard_manager.failing import Late, Untaken, Verdict, judge, most_aside

LIMIT = 30.0


def beat(
    untaken: Untaken,
    at: float,
    held: dict[int, int],
    expected: dict[int, int],
    dropped: dict[int, int] | None = None,
    container: str = "c1",
) -> Untaken:
    untaken.hear(container, held, dropped or {}, expected, at)
    return untaken


def test_a_shard_that_no_heartbeat_holds_is_late_after_the_limit() -> None:
    untaken, expected = Untaken(), {1: 5, 2: 6, 3: 6}
    for at in (100.0, 129.9):
        beat(untaken, at, {1: 5}, expected)
    assert untaken.late(LIMIT) == {}
    beat(untaken, 130.0, {1: 5}, expected)
    assert untaken.late(LIMIT) == {"c1": Late(2, 30.0)}
    untaken.forget("c1")
    assert untaken.late(LIMIT) == {}


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
    untaken = Untaken()
    for at in (100.0, 110.0):
        beat(untaken, at, {}, {2: 6})
    assert beat(untaken, 200.0, held, expected, dropped).late(LIMIT) == {}


@pytest.mark.parametrize(("held", "dropped"), [({2: 5}, {}), ({}, {2: 5})], ids=["held", "dropped"])
def test_what_it_says_of_an_older_epoch_is_no_excuse(held: dict[int, int], dropped: dict[int, int]) -> None:
    untaken = Untaken()
    for at in (100.0, 130.0):
        beat(untaken, at, held, {2: 6}, dropped)
    assert untaken.late(LIMIT) == {"c1": Late(1, 30.0)}


def test_silence_is_not_evidence() -> None:
    """Only what heartbeats said counts: long after the last of them nothing more is known."""
    untaken = Untaken()
    for at in (100.0, 120.0):
        beat(untaken, at, {}, {2: 6})
    assert beat(untaken, 500.0, {}, {}, container="c2").late(LIMIT) == {}


@pytest.mark.parametrize(
    ("late", "nearly", "taking", "most", "verdict"),
    [
        pytest.param("a", "a", "abc", 1, Verdict(("a",), ()), id="one"),
        pytest.param("ba", "b", "abc", 2, Verdict(("a", "b"), ()), id="as many as may be"),
        pytest.param("ab", "ab", "abc", 1, Verdict((), ("a", "b")), id="so many that it is not their fault"),
        pytest.param("a", "", "a", 1, Verdict((), ("a",)), id="nobody else is there"),
        pytest.param("a", "", "bc", 1, Verdict(("a",), ()), id="one that takes no shards any more"),
        pytest.param("a", "b", "abc", 1, Verdict((), ("a",)), id="others will be late soon, too"),
        pytest.param("", "", "", 1, Verdict((), ()), id="nobody"),
    ],
)
def test_who_is_set_aside(late: str, nearly: str, taking: str, most: int, verdict: Verdict) -> None:
    assert judge(tuple(late), tuple(nearly), tuple(taking), most) == verdict


def test_one_container_may_always_be_set_aside_and_a_share_of_many() -> None:
    assert [most_aside(live, 0.1) for live in (1, 9, 10, 29, 3000)] == [1, 1, 1, 2, 300]
