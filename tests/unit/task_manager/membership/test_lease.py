"""Until when a lease is good."""

from __future__ import annotations

import pytest

from penstock.tasks.ownership import OwnedShards
from penstock.tasks.shards import Sharding
from services.task_manager.membership.membership import Membership

NOTHING = OwnedShards({}, 1, Sharding(8), 1)


def granted(sent_at: float, seconds: float) -> Membership:
    member = Membership("c1", lambda: "life")
    member.grant(sent_at, seconds, NOTHING, {}, sent_at)
    return member


@pytest.mark.parametrize(("now", "is_good"), [(100.0, True), (139.9, True), (140.0, False), (500.0, False)])
def test_a_lease_runs_from_when_the_heartbeat_was_sent(now: float, is_good: bool) -> None:
    member = granted(100.0, 40.0)
    assert (member.has_lease(now), member.lease_until) == (is_good, 140.0)


def test_there_is_no_lease_before_the_first_answer() -> None:
    member = Membership("c1", lambda: "life")
    assert not member.has_lease(-1e300)
    assert not member.was_granted()
    assert granted(0.0, 1.0).was_granted()


def test_an_answer_that_comes_when_its_lease_has_ended_grants_none() -> None:
    member = Membership("c1", lambda: "life")
    member.grant(100.0, 40.0, NOTHING, {}, 140.0)
    assert not member.was_granted()


def test_a_late_answer_never_shortens_a_lease() -> None:
    member = granted(160.0, 40.0)
    member.grant(100.0, 40.0, NOTHING, {}, 161.0)
    assert member.lease_until == 200.0
