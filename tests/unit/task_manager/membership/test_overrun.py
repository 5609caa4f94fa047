"""The time in which tasks ran past their lease."""

from __future__ import annotations

from services.task_manager.membership.overrun import OverrunMeter


def test_time_past_a_lease_adds_up_and_double_runs_begin_after_the_time_to_stop() -> None:
    meter = OverrunMeter(stop_seconds=10.0)
    meter.sample(None, 100.0)
    meter.sample(102.0, 105.0)
    assert (meter.past_lease_seconds, meter.double_run_seconds) == (3.0, 0.0)
    meter.sample(102.0, 113.0)
    assert (meter.past_lease_seconds, meter.double_run_seconds) == (11.0, 1.0)
    meter.sample(None, 200.0)
    assert (meter.past_lease_seconds, meter.double_run_seconds) == (11.0, 1.0)
