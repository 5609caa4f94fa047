"""How often a token may call."""

from __future__ import annotations

import pytest

from penstock.control.errors import TooManyCalls
from services.job_service.rates import Rates, Sizes


def test_calls_beyond_the_burst_wait_for_the_rate_and_cost_nothing() -> None:
    """1. Two at once. 2. The third is refused, and again. 3. After the time that it named one passes, and one only."""
    rates = Rates(per_second=0.25, burst=2)
    rates.take("tool", now=100.0)
    rates.take("tool", now=100.0)
    for now in (100.0, 102.0):
        with pytest.raises(TooManyCalls) as refused:
            rates.take("tool", now)
    assert refused.value.extra["retry_after_seconds"] == 2
    assert (refused.value.field, refused.value.rule) == ("Authorization", "calls_per_second")
    rates.take("tool", now=104.0)
    with pytest.raises(TooManyCalls):
        rates.take("tool", now=104.0)


def test_one_token_does_not_use_up_the_calls_of_another() -> None:
    rates = Rates(per_second=1.0, burst=1)
    rates.take("tool", now=0.0)
    rates.take("ann", now=0.0)
    with pytest.raises(TooManyCalls, match="the token tool may make 1 calls a second, and 1 at once"):
        rates.take("tool", now=0.5)


def test_a_quiet_token_gathers_no_more_than_its_burst() -> None:
    rates = Rates(per_second=10.0, burst=2)
    rates.take("tool", now=0.0)
    rates.take("tool", now=3600.0)
    rates.take("tool", now=3600.0)
    with pytest.raises(TooManyCalls):
        rates.take("tool", now=3600.0)


def test_without_a_rate_there_is_no_limit() -> None:
    rates = Rates(per_second=None, burst=1)
    assert [rates.take("tool", now=0.0) for _ in range(5)] == [None] * 5


def test_bytes_beyond_the_burst_wait_and_a_larger_body_passes_alone() -> None:
    """1. Two bodies, then none. 2. A larger body waits for a full bucket. 3. The next waits for its rest."""
    rates = Rates(per_second=10.0, burst=100, of="bytes")
    rates.take("tool", 0.0, 60)
    rates.take("tool", 0.0, 40)
    with pytest.raises(TooManyCalls, match="the token tool may send 10 bytes a second, and 100 at once") as refused:
        rates.take("tool", 0.0, 50)
    assert (refused.value.rule, refused.value.extra["retry_after_seconds"]) == ("bytes_per_second", 5)
    with pytest.raises(TooManyCalls):
        rates.take("tool", 9.0, 150)
    rates.take("tool", 10.0, 150)
    with pytest.raises(TooManyCalls) as refused:
        rates.take("tool", 10.0, 10)
    assert refused.value.extra["retry_after_seconds"] == 6
    rates.take("tool", 16.0, 10)


def test_what_came_without_its_length_counts_afterwards() -> None:
    """1. It passes. 2. Its token waits for all of it."""
    rates = Rates(per_second=10.0, burst=100, of="bytes")
    rates.take("tool", 0.0)
    rates.charge("tool", 0.0, 500)
    with pytest.raises(TooManyCalls):
        rates.take("tool", 40.0)
    rates.take("tool", 41.0)


def test_a_role_has_its_own_largest_body_and_never_more_than_the_largest() -> None:
    sizes = Sizes(1000, {"scaler": 10, "oncall": 5000}, Rates(None, 1, "bytes"))
    assert [sizes.most_of(role) for role in ("scaler", "oncall", "admin")] == [10, 1000, 1000]
