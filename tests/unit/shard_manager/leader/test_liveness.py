"""Who is lost, and when to wait for more containers: tables."""

from __future__ import annotations

import pytest

from services.shard_manager.leader.liveness import is_gathering, lost


@pytest.mark.parametrize(
    ("heard_at", "listening_since", "now", "expected"),
    [
        pytest.param({"a": 100.0}, 0.0, 160.0, (), id="a whole interval has not passed yet"),
        pytest.param({"a": 100.0}, 0.0, 160.1, ("a",), id="silent for longer than the interval"),
        pytest.param({}, 100.0, 160.0, (), id="never heard, and the leader is new"),
        pytest.param({}, 100.0, 160.1, ("a",), id="never heard during a whole interval"),
        pytest.param({"a": 10.0}, 100.0, 160.0, (), id="what was heard before a break says nothing"),
        pytest.param({"a": 150.0, "other": 0.0}, 0.0, 160.0, (), id="others do not matter"),
        pytest.param({}, float("inf"), 1e9, (), id="a leader that does not listen calls nobody lost"),
    ],
)
def test_lost(heard_at, listening_since, now, expected):
    assert lost(["a"], heard_at, listening_since=listening_since, now=now, interval_seconds=60.0) == expected


def test_lost_containers_come_in_order_of_name():
    names = ["c", "a", "b"]
    assert lost(names, {"b": 99.0}, listening_since=0.0, now=100.0, interval_seconds=60.0) == ("a", "c")


@pytest.mark.parametrize(
    ("joined_at", "now", "expected"),
    [
        ([], 10.0, False),
        ([9.5], 10.0, True),
        ([9.0], 10.0, False),
        ([6.0, 9.5], 10.0, True),
        ([5.0, 9.5], 10.0, False),
    ],
)
def test_is_gathering(joined_at, now, expected):
    assert is_gathering(joined_at, now=now, gather_seconds=1.0, gather_limit_seconds=5.0) is expected
