"""Uneven input: when the key groups are dealt anew, when that is no cure, and when it is not done again."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from penstock.config.model import JobConfig
from services.auto_scaler.decide.decision import DecisionInputs
from services.auto_scaler.decide.explain import sentences
from services.auto_scaler.decide.model import Action, JobUpdate, PastRebalance, ScalerState
from services.auto_scaler.decide.symptoms import JobSymptoms
from tests.support.auto_scaler import NOW, decided, job, load, rate, situation, state, symptoms

# Rows per second of eight key groups: of two tasks the first gets 95 of 100, and 60 with the best ranges, [0] and [1-7]
SKEWED = (60.0, 20.0, 10.0, 5.0, 2.0, 1.0, 1.0, 1.0)
EVEN = (12.5,) * 8
ONE_HOT = (93.0, *(1.0,) * 7)
LAGGING = symptoms(91.0, processed_rows_per_second=200.0)
REBALANCED, GROWN = {"key_group_bounds": [1]}, {"task_count": 4}


def uneven(traffic: tuple[float | None, ...] | None = SKEWED, **values: Any) -> ScalerState:
    """A task does 100 rows/s for sure, and 100 come in, 95 of them to one task: by that it would take three tasks."""
    busiest = {"busiest_rows_per_second": 95.0, "busiest_backlog_records": 0.0}
    known = load(100.0, 0.0, 5.0).model_copy(update=busiest)
    return state(**{"traffic": traffic, "rate": rate(), "load": known} | values)


def unknown(traffic: tuple[float | None, ...] | None = SKEWED, **values: Any) -> ScalerState:
    """Nothing is known of what a task can do."""
    return state(traffic=traffic, **values)


TWO = job(2, key_groups=8)
HOT = symptoms(91.0, largest_backlog_share=0.9, processed_rows_per_second=200.0)
RATES_DIFFER = symptoms(91.0, imbalance=0.6, processed_rows_per_second=200.0)
SLIGHTLY = (20.0, 16.0, 12.0, 12.0, 10.0, 10.0, 10.0, 10.0)
CASES: dict[str, tuple[JobSymptoms, JobConfig, ScalerState, Any]] = {
    "enough if dealt evenly": (LAGGING, TWO, uneven(), REBALANCED),
    "the input is uneven, and nothing else is known": (LAGGING, TWO, unknown(), REBALANCED),
    "half of the key groups are unknown": (LAGGING, TWO, unknown((*SKEWED[:4], *(None,) * 4)), GROWN),
    "too few key groups are known": (LAGGING, TWO, unknown((*SKEWED[:3], *(None,) * 5)), GROWN),
    "none is known": (RATES_DIFFER, TWO, unknown(None), GROWN),
    "it is even": (RATES_DIFFER, TWO, unknown(EVEN), GROWN),
    "one key group has it all, and has a task": (
        LAGGING,
        job(2, key_groups=8, key_group_bounds=[1]),
        unknown(ONE_HOT),
        GROWN,
    ),
    "the gain is too small": (RATES_DIFFER, TWO, unknown((20.0, *(10.0,) * 7)), GROWN),
    "not uneven by input, but by rates": (RATES_DIFFER, TWO, unknown(SLIGHTLY), {"key_group_bounds": [3]}),
    "not uneven at all": (LAGGING, TWO, unknown(SLIGHTLY), GROWN),
    "of what waits most is for one task, and all are enough": (
        HOT,
        TWO,
        uneven(SLIGHTLY, load=load(100.0, 0.0, 5.0)),
        {"key_group_bounds": [3]},
    ),
    "no deal would be enough": (LAGGING, TWO, uneven(load=load(300.0, 0.0, 5.0)), GROWN),
    "a single task": (LAGGING, job(1, key_groups=8), unknown(), {"task_count": 2}),
    "a task for each key group": (LAGGING, job(8, key_groups=8), unknown(), None),
    "a higher layer sets the ranges": (LAGGING, TWO, unknown(pinned=["key_group_bounds"]), GROWN),
    "a higher layer sets the number of tasks": (LAGGING, TWO, unknown(pinned=["task_count"]), None),
}


@pytest.mark.parametrize(("found", "config", "values", "change"), CASES.values(), ids=CASES.keys())
def test_uneven_input_is_dealt_anew(found: JobSymptoms, config: JobConfig, values: ScalerState, change: Any) -> None:
    decision = decided(found, config, values)
    assert decision.change == change
    assert (decision.action is Action.REBALANCE) is ("key_group_bounds" in (change or {}))


def dealt(minutes_ago: int, lag: float | None = 91.0, tasks: int = 2) -> PastRebalance:
    return PastRebalance(at=NOW - timedelta(minutes=minutes_ago), tasks=tasks, lag_seconds=lag)


AGAIN: dict[str, tuple[dict[str, Any], Any]] = {
    "just now": ({"last_rebalance": dealt(10)}, GROWN),
    "just now, and it helped": ({"last_rebalance": dealt(10, 200.0)}, GROWN),
    "two hours ago, and it did not help": ({"last_rebalance": dealt(120)}, GROWN),
    "two hours ago, with unknown lag": ({"last_rebalance": dealt(120, None)}, GROWN),
    "two hours ago, and it helped": ({"last_rebalance": dealt(120, 200.0)}, REBALANCED),
    "a day ago": ({"last_rebalance": dealt(1440)}, REBALANCED),
    "with other tasks": ({"last_rebalance": dealt(10, tasks=3)}, REBALANCED),
    "before an update": (
        {"last_rebalance": dealt(10), "update": JobUpdate(at=NOW - timedelta(minutes=7), author="ann")},
        REBALANCED,
    ),
}


@pytest.mark.parametrize(("values", "change"), AGAIN.values(), ids=AGAIN.keys())
def test_a_rebalance_that_did_not_help_is_not_repeated(values: dict[str, Any], change: Any) -> None:
    assert decided(LAGGING, TWO, unknown(**values)).change == change


def test_no_rebalance_soon_after_a_change() -> None:
    assert decided(LAGGING, TWO, unknown(last_action_at=NOW - timedelta(seconds=299))).change is None


def test_what_is_said_of_it() -> None:
    inputs = DecisionInputs(**situation(LAGGING, TWO, uneven(last_rebalance=dealt(1500)))._asdict())
    said = sentences(inputs, inputs.decide())
    assert (
        "Key groups: 8 of 8 are measured. The busiest task gets 1.90 times the mean input, and 1.20 times with the "
        "best ranges." in said
    )
    assert "Last rebalance: at 2026-01-09 11:00 UTC, with a lag of 91 s then." in said
    assert said[-1] == (
        "The tasks get other ranges of key groups: lag of 91 s is over the SLO of 90 s; the busiest of 2 tasks gets "
        "1.90 times the mean input, by its key groups; other ranges of key groups take 37% from the busiest task, "
        "which then has 1.20 times the mean."
    )
