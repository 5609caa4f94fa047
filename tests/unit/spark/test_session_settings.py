"""Settings of a task's session that follow from the job."""

from __future__ import annotations

import pytest

from penstock.spark.session import polling_delay_ms


@pytest.mark.parametrize(("interval", "delay"), [(0.0, 100), (0.02, 20), (0.0001, 100), (0.05, 50), (5.0, 100)])
def test_an_idle_query_never_sleeps_beyond_its_interval(interval: float, delay: int) -> None:
    assert polling_delay_ms(interval) == delay
