"""Drains at their limit."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from penstock.tasks.ownership import CORDONED, DRAINING, OPEN, Member, Owner
from services.shard_manager.moves.drains import overdue_alerts, taken_off, to_be_emptied
from services.shard_manager.moves.moves import Planned

NOW = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def member(availability: str, until: datetime | None = None, *, live: bool = True) -> Member:
    return Member("a", "1", "http://a", "r", 1.0, 1, 1, live, availability=availability, drain_until=until)


@pytest.mark.parametrize(
    ("row", "is_emptied"),
    [
        pytest.param(member(OPEN), False, id="open"),
        pytest.param(member(CORDONED), False, id="cordoned"),
        pytest.param(member(DRAINING), False, id="no limit"),
        pytest.param(member(DRAINING, NOW + SECOND), False, id="before its limit"),
        pytest.param(member(DRAINING, NOW), True, id="at its limit"),
        pytest.param(member(DRAINING, NOW - SECOND), True, id="past its limit"),
        pytest.param(member(DRAINING, NOW - SECOND, live=False), False, id="lost"),
    ],
)
def test_who_is_to_be_emptied(row, is_emptied):
    assert to_be_emptied({"a": row}, NOW) == ({"a"} if is_emptied else set())


def test_all_that_is_left_is_taken_off_at_once():
    """To its place where it has one, else to nobody; not what moves already, nor what others own."""
    owners = {
        0: Owner("a", 1),  # has a place
        1: Owner("a", 2),  # has none
        2: Owner("a", 3),  # its place is lost
        3: Owner("a", 4),  # its place is to be emptied, too
        4: Owner("a", 5),  # moves already
        5: Owner("a", 6),  # dropped, has a place
        6: Owner("a", 7),  # dropped, has none
        7: Owner("b", 8),
        8: Owner(None, 9),
    }
    where = {0: "b", 2: "gone", 3: "c", 4: "b", 5: "b", 7: "a", 8: "b"}
    assert taken_off(owners, {"a", "c"}, where.get, {"a", "b", "c"}, {4}, {5, 6}) == [
        Planned(0, 1, "a", "b"),
        Planned(1, 2, "a", None),
        Planned(2, 3, "a", None),
        Planned(3, 4, "a", None),
        Planned(5, 6, None, "b"),
        Planned(6, 7, None, None),
    ]


def test_it_goes_by_no_budget():
    owners = {shard: Owner("a", 1) for shard in range(5000)}
    assert len(taken_off(owners, {"a"}, {}.get, {"b"}, (), ())) == 5000


@pytest.mark.parametrize(
    ("row", "shards", "is_told"),
    [
        pytest.param(member(DRAINING, NOW - 10 * SECOND), 3, True, id="does not drop"),
        pytest.param(member(DRAINING, NOW - 9 * SECOND), 3, False, id="not for long"),
        pytest.param(member(DRAINING, NOW - 10 * SECOND), 0, False, id="empty"),
        pytest.param(member(DRAINING), 3, False, id="no limit"),
        pytest.param(member(DRAINING, NOW - 10 * SECOND, live=False), 3, False, id="lost"),
    ],
)
def test_overdue_alerts(row, shards, is_told):
    found = overdue_alerts({"a": row}, {"a": shards}, NOW, 10 * SECOND)
    assert list(found) == (["a"] if is_told else [])
    if is_told:
        assert found["a"].details == {"shards": 3, "drain_until": "2026-01-02T03:03:50+00:00"}
