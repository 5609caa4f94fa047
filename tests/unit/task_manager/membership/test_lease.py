"""Until when a lease is good."""

from __future__ import annotations

import pytest

from services.task_manager.membership.lease import Lease


@pytest.mark.parametrize(
    ("sent_at", "seconds", "now", "is_good", "left"),
    [
        (100.0, 40.0, 100.0, True, 40.0),
        (100.0, 40.0, 139.9, True, pytest.approx(0.1)),
        (100.0, 40.0, 140.0, False, 0.0),
        (100.0, 40.0, 500.0, False, 0.0),
    ],
)
def test_a_lease_runs_from_when_the_heartbeat_was_sent(
    sent_at: float, seconds: float, now: float, is_good: bool, left: float
) -> None:
    lease = Lease().extended(sent_at, seconds)
    assert (lease.is_good(now), lease.seconds_left(now)) == (is_good, left)


def test_there_is_no_lease_before_the_first_answer() -> None:
    assert not Lease().is_good(-1e300)
    assert not Lease().was_granted()
    assert Lease().extended(0.0, 1.0).was_granted()


def test_a_late_answer_never_shortens_a_lease() -> None:
    assert Lease(200.0).extended(100.0, 40.0) == Lease(200.0)
