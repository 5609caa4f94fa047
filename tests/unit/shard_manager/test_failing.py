"""Containers that do not take their shards: told from their heartbeats alone."""

from __future__ import annotations

import pytest

from penstock.wire.cluster import HeartbeatRequest
from services.shard_manager.failing import Late, Untaken, Verdict, judge, most_aside
from tests.support.shard_manager import CAPACITY

LIMIT = 30.0
NOTHING: frozenset[int] = frozenset()


def beat(held: dict[int, int], dropped: dict[int, int] | None = None, container: str = "c1") -> HeartbeatRequest:
    return HeartbeatRequest(
        container=container,
        incarnation="1",
        url="http://c1",
        region="local",
        capacity=CAPACITY,
        held=held,
        dropped=dropped or {},
    )


def heard(*beats: tuple[float, HeartbeatRequest], owned: dict[int, int], withheld: frozenset[int] = NOTHING) -> Untaken:
    untaken = Untaken()
    for at, request in beats:
        untaken.hear(request, owned, withheld, at)
    return untaken


def test_a_shard_that_no_heartbeat_holds_is_late_after_the_limit() -> None:
    untaken = heard((100.0, beat({1: 5})), (129.9, beat({1: 5})), owned={1: 5, 2: 6, 3: 6})
    assert untaken.late(LIMIT) == {}
    untaken.hear(beat({1: 5}), {1: 5, 2: 6, 3: 6}, NOTHING, 130.0)
    assert untaken.late(LIMIT) == {"c1": Late(2, 30.0)}
    untaken.forget("c1")
    assert untaken.late(LIMIT) == {}


@pytest.mark.parametrize(
    ("last", "owned", "withheld"),
    [
        pytest.param(beat({2: 6}), {2: 6}, NOTHING, id="it holds it now"),
        pytest.param(beat({2: 7}), {2: 6}, NOTHING, id="it knows a newer epoch than this leader"),
        pytest.param(beat({}, {2: 6}), {2: 6}, NOTHING, id="it dropped it"),
        pytest.param(beat({}), {2: 6}, frozenset({2}), id="answers leave it out"),
        pytest.param(beat({}), {2: 7}, NOTHING, id="it was given anew: the time begins anew"),
        pytest.param(beat({}), {}, NOTHING, id="it is not its own any more"),
    ],
)
def test_a_shard_is_not_late(last: HeartbeatRequest, owned: dict[int, int], withheld: frozenset[int]) -> None:
    untaken = heard((100.0, beat({})), (110.0, beat({})), owned={2: 6})
    untaken.hear(last, owned, withheld, 200.0)
    assert untaken.late(LIMIT) == {}


@pytest.mark.parametrize("known", [beat({2: 5}), beat({}, {2: 5})], ids=["an older epoch held", "an older one dropped"])
def test_what_it_says_of_an_older_epoch_is_no_excuse(known: HeartbeatRequest) -> None:
    assert heard((100.0, known), (130.0, known), owned={2: 6}).late(LIMIT) == {"c1": Late(1, 30.0)}


def test_silence_is_not_evidence() -> None:
    """Only what heartbeats said counts: long after the last of them nothing more is known."""
    untaken = heard((100.0, beat({})), (120.0, beat({})), (500.0, beat({}, container="c2")), owned={2: 6})
    assert untaken.late(LIMIT) == {}


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
