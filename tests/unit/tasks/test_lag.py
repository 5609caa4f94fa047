"""Lag: tables."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.tasks.lag import Flow, JobFlow, Lag, job_flow, lag_of, lag_seconds


@pytest.mark.parametrize(
    ("backlog", "rate", "expected"),
    [
        pytest.param(None, None, None, id="nothing known"),
        pytest.param(600, 20.0, 30.0, id="backlog by rate"),
        pytest.param(0, None, 0.0, id="no backlog is no lag, whatever the rate"),
        pytest.param(600, None, None, id="unknown rate"),
        pytest.param(600, 0.0, None, id="nothing is worked off"),
        pytest.param(None, 20.0, None, id="unknown backlog"),
    ],
)
def test_lag_seconds(backlog: float | None, rate: float | None, expected: float | None) -> None:
    assert lag_seconds(backlog, rate) == expected


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        ((None, None, None, None), Lag(None, None)),
        ((0, None, None, None), Lag(0.0, 0.0, 0.0)),
        ((600, 20.0, None, None), Lag(30.0, 30.0, 30.0)),
        ((600, 20.0, 45.0, None), Lag(45.0, 45.0, 45.0)),
        ((600, None, 45.0, None), Lag(None, 45.0)),
        ((600, 0.0, None, None), Lag(None, None)),
        ((None, 20.0, 45.0, None), Lag(None, 45.0)),
        # Records that came in the last 12 s, of a task that so far had few to show a rate with.
        ((600, 20.0, None, 12.0), Lag(12.0, 12.0, 12.0)),
        ((600, 20.0, 10.0, 12.0), Lag(12.0, 12.0, 12.0)),
        ((600, 20.0, None, 80.0), Lag(30.0, 30.0, 30.0)),
        ((0, 20.0, None, 80.0), Lag(0.0, 0.0, 0.0)),
        ((600, None, 10.0, 12.0), Lag(None, 10.0, 12.0)),
    ],
)
def test_the_lag_of_a_task(measured: tuple[Any, Any, Any, Any], expected: Lag) -> None:
    assert lag_of(*measured) == expected


SLOW, QUICK, IDLE = Flow(100, 10.0, 8.0), Flow(50, 50.0, 20.0), Flow(0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("flows", "task_count", "expected"),
    [
        pytest.param([], 1, JobFlow(), id="no task is known"),
        pytest.param([SLOW, QUICK], 2, JobFlow(150, 10.0, 28.0), id="sums, and the lag of the slowest"),
        pytest.param([SLOW, IDLE], 2, JobFlow(100, 10.0, 8.0), id="an idle task does not lag"),
        pytest.param([SLOW, Flow(50, 50.0, 1.0, 70.0)], 2, JobFlow(150, 70.0, 9.0), id="an unfinished batch is old"),
        pytest.param([Flow(9_000, 1.0, 8.0, None, 20.0)], 1, JobFlow(9_000, 20.0, 8.0), id="nothing unread is older"),
        pytest.param([SLOW, None], 2, JobFlow(), id="one task is unknown"),
        pytest.param([SLOW], 2, JobFlow(), id="one task is missing"),
        pytest.param([SLOW, Flow(5, None, 1.0)], 2, JobFlow(105, None, 9.0), id="one lag is unknown"),
        pytest.param([SLOW, Flow(None, 9.0, None)], 2, JobFlow(), id="one backlog and one rate are unknown"),
    ],
)
def test_the_flow_of_a_job(flows: list[Flow | None], task_count: int, expected: JobFlow) -> None:
    assert job_flow(flows, task_count) == expected
