"""Catching up: what came in meanwhile, at the rate that is left over."""

from __future__ import annotations

import pytest

from penstock.tasks.rates import Rates, catch_up_seconds


@pytest.mark.parametrize(
    ("rates", "downtime", "seconds"),
    [
        (Rates(100.0, 300.0, 0), 4.0, 2.0),
        (Rates(100.0, 300.0, 1000), 4.0, 7.0),
        (Rates(0.0, 300.0, 0), 4.0, 0.0),
        (Rates(300.0, 300.0, 0), 4.0, None),
        (Rates(300.0, 100.0, 0), 4.0, None),
        (Rates(None, 300.0, 0), 4.0, None),
        (Rates(100.0, None, 0), 4.0, None),
        (Rates(100.0, 300.0, None), 4.0, None),
        (Rates(100.0, 300.0, 0), None, None),
    ],
)
def test_seconds(rates: Rates, downtime: float | None, seconds: float | None) -> None:
    assert catch_up_seconds(rates, downtime) == seconds
