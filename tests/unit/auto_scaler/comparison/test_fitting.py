"""The model held against recorded runs: it finds the figures of runs that it made itself, and tells what differs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import numpy as np
import pytest

from tests.support.autoscaling.calibration import Figures
from tests.support.autoscaling.fitting import Compared, compare_minutes, errors, fit
from tests.support.autoscaling.jobs import KEY_GROUPS, Job, Size
from tests.support.autoscaling.model import Fleet
from tests.support.autoscaling.recording import RecordedChange, RecordedRun, RecordedStep, Recording
from tests.support.autoscaling.seen import Wanted
from tests.support.autoscaling.traces import trace

TRUE = Figures(20.0, 0.5, down_seconds=6.0, warm_up_share=0.9, rate_noise=0.0, host_noise=0.0)
STEPS = ((10.0, 1), (30.0, 1), (30.0, 2), (30.0, 2), (6.0, 2), (6.0, 2))
MEMORY = 2**29


def run_of(steps: Sequence[tuple[float, int]], figures: Figures = TRUE) -> RecordedRun:
    """What a job would have measured whose tasks are as the model has them."""
    rates = np.array([rate for rate, _ in steps])
    fleet = Fleet(
        [Job(trace("a", "a", rates), np.full(KEY_GROUPS, 1 / KEY_GROUPS))],
        [[Size(steps[0][1], MEMORY)]],
        np.random.default_rng(0),
        figures,
    )
    recorded, changes = [], []
    for number, (rate, tasks) in enumerate(steps):
        if tasks != fleet.tasks[0]:
            fleet.order(0, Wanted(tasks, MEMORY), number)
            changes.append(RecordedChange(step=number, down_seconds=figures.down_seconds, seconds=9.0))
        minute = fleet.step(number)
        measured = {
            "input_rows_per_second": float(minute.processed_rate[0]),
            "processed_rows_per_second": None if number == 4 else float(minute.true_rate[0]),
            "backlog_records": float(minute.backlog[0]),
            "lag_seconds": float(minute.delay[0]),
            "busy_share": float(minute.busy[0]),
            "tasks_running": float(tasks),
        }
        recorded.append(RecordedStep(sent_rows_per_second=rate, tasks=tasks, measured=measured))
    return RecordedRun(name="a", steps=recorded, changes=changes)


def recording(*runs: RecordedRun) -> Recording:
    return Recording(recorded_on=date(2026, 1, 1), cores=2, load=1.0, key_group_shares=[0.25] * 4, runs=runs)


def test_figures_are_found_again_and_then_predict_without_an_error() -> None:
    found = fit(recording(run_of(STEPS)))
    assert found.rows_per_core_second == pytest.approx(TRUE.rows_per_core_second, rel=0.01)
    assert found.batch_overhead_seconds == pytest.approx(TRUE.batch_overhead_seconds, abs=0.02)
    assert found.down_seconds == TRUE.down_seconds
    held_out = compare_minutes(recording(run_of(((15.0, 1), (25.0, 1), (25.0, 1), (5.0, 1)))), found)
    assert errors(held_out).keys() == {each.quantity for each in held_out}
    assert all(error < 0.02 for error in errors(held_out).values())


def test_what_was_not_measured_is_not_compared() -> None:
    compared = compare_minutes(recording(run_of(STEPS)), TRUE)
    assert {each.step for each in compared if each.quantity == "processed_rows_per_second"} == {0, 1, 2, 3, 5}


def test_an_error_is_in_parts_of_all_that_was_measured() -> None:
    compared = [Compared("a", 0, "q", 3.0, 1.0), Compared("a", 1, "q", 0.0, 3.0), Compared("a", 0, "r", 1.0, 1.0)]
    compared.append(Compared("a", 0, "always 0", 1.0, 0.0))
    assert errors(compared) == {"q": 5 / 4, "r": 0.0}


def test_runs_without_a_change_of_tasks_cannot_be_fitted() -> None:
    with pytest.raises(ValueError, match="a change of tasks"):
        fit(recording(run_of(((10.0, 1), (15.0, 1)))))
