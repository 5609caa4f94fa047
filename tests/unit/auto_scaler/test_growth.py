"""More tasks by the estimate: how many, what limits them, when to rebalance or to prepare instead."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from penstock.config.model import JobConfig
from services.auto_scaler.decide.model import Action, ScalerState, Symptom
from tests.support.auto_scaler import GIB, NOW, QUIET, change, decided, job, load, past, rate, state, symptoms

LAGGING = symptoms(91.0, processed_rows_per_second=200.0)


def known(rows: float, backlog: float | None = 18_200.0, **values: Any) -> ScalerState:
    """A task does 100 rows a second; t is 900 s, and a fifth is added."""
    return state(**{"rate": rate(), "load": load(rows, backlog, 5.0)} | values)


# (X + B/t) * 1.2 / P: with no backlog of note, 1,000 rows/s need 12 tasks
COUNTS = {
    "to the estimate, not to the double": (job(2), known(1000.0, 0.0), 13),
    "what waits counts": (job(2), known(1000.0, 900_000.0), 32),
    "one step at least is no growth by a rounding": (job(2), known(180.0), 3),
    "dealt evenly": (job(2, key_groups=8), known(450.0, 0.0), 8),
    "a backlog in bytes only counts by the lag": (job(2), known(1000.0, None), 13),
    "a lower bound is no estimate": (job(2), known(1000.0, rate=rate(is_lower_bound=True)), 4),
    "a profile is one": (job(2), known(1000.0, 0.0, rate=rate(200.0, of_profile=True)), 13),
    "a profile is none of an outage: the sink may be slow": (
        job(4),
        known(400.0, 0.0, rate=rate(2000.0, of_profile=True)),
        11,
    ),
    "no load, no estimate": (job(2), known(1000.0, load=None), 4),
    "slower now": (job(4), known(400.0, 0.0, rate=rate(60.0)), 11),
}


@pytest.mark.parametrize(("config", "values", "tasks"), COUNTS.values(), ids=COUNTS.keys())
def test_lag_leads_to_the_estimate(config: JobConfig, values: ScalerState, tasks: int) -> None:
    decision = decided(LAGGING, config, values)
    assert (decision.action, decision.change) == (Action.INCREASE_TASKS, {"task_count": tasks})


NEEDED = "64 tasks are needed, and it may have"
LIMITS = {
    "of every job": (job(2), 32, f"{NEEDED} 32 by the limit of 32 tasks a job, which max_task_count can raise"),
    "its own": (job(2, max_task_count=10), 10, f"{NEEDED} 10 by its max_task_count of 10"),
    "none, since it was raised": (job(2, max_task_count=100), 64, None),
    "key groups": (job(2, key_groups=20), 20, "44 tasks are needed, and it may have 20 by its 20 key groups"),
}


@pytest.mark.parametrize(("config", "tasks", "said"), LIMITS.values(), ids=LIMITS.keys())
def test_the_limit_that_binds_is_said(config: JobConfig, tasks: int, said: str | None) -> None:
    decision = decided(LAGGING, config, known(3600.0, 0.0))
    assert (decision.change, decision.limits) == ({"task_count": tasks}, () if said is None else (said,))


AT_LIMIT = {
    "key groups": (job(8, key_groups=8), "each of its 8 key groups has a task of its own already"),
    "whole key groups": (
        job(4, key_groups=8, max_task_count=7),
        "it would take 8 tasks to carry more, and it may have 7 by its max_task_count of 7",
    ),
    "of every job": (
        job(32),
        "it would take 64 tasks to carry more, and it may have 32 by the limit of 32 tasks a job, "
        "which max_task_count can raise",
    ),
}


@pytest.mark.parametrize(("config", "limit"), AT_LIMIT.values(), ids=AT_LIMIT.keys())
def test_a_job_at_its_limit_says_which_it_is(config: JobConfig, limit: str) -> None:
    lagging = symptoms(91.0, processed_rows_per_second=100.0 * config.task_count)
    decision = decided(lagging, config, known(6400.0, 0.0))
    assert (decision.action, decision.limits) == (Action.NONE, (limit,))


def test_after_a_reduction_that_was_too_much_the_job_goes_back_at_least() -> None:
    """P was thought to be 100. Two tasks lag with 190 rows/s: P is between 95 and 100, but four tasks were enough."""
    values = known(190.0, 0.0, last_change=change(Action.DECREASE_TASKS, 4, 2))
    assert decided(LAGGING, job(2), values).change == {"task_count": 4}
    later = values.model_copy(update={"last_change": change(Action.DECREASE_TASKS, 4, 2, at=NOW - timedelta(hours=2))})
    assert decided(LAGGING, job(2), later).change == {"task_count": 3}


def test_a_job_grows_to_what_its_busiest_task_needs() -> None:
    """Four tasks of 100 rows/s, and 300 rows/s come in, but 140 of them to one task: 4 * 140 * 1.2 / 100 = 6.7."""
    uneven = load(300.0, 0.0, 5.0).model_copy(update={"busiest_rows_per_second": 140.0, "busiest_backlog_records": 0.0})
    lagging = symptoms(91.0, processed_rows_per_second=400.0)
    assert decided(lagging, job(4), known(300.0, load=uneven)).change == {"task_count": 8}


def test_no_number_of_tasks_is_an_answer_to_an_outage() -> None:
    """Tasks that did 100 rows/s each do 14: people are asked. At 16 they are slow, and more of them help."""
    values = known(1000.0, rate=rate(20.0).model_copy(update={"best_rows_per_second": 100.0}))
    down = decided(symptoms(91.0, processed_rows_per_second=28.0), job(2), values)
    assert (down.change, down.untriaged) == (None, True)
    early = decided(symptoms(46.0, processed_rows_per_second=28.0), job(2), values)
    assert (early.change, early.untriaged) == (None, False)
    slow = decided(symptoms(91.0, processed_rows_per_second=32.0), job(2), values)
    assert slow.action is Action.INCREASE_TASKS


HEALTHY = symptoms(0.0)
UNEVEN = load(100.0, 0.0).model_copy(update={"busiest_rows_per_second": 65.0})
HOT = load(100.0, 0.0).model_copy(update={"busiest_rows_per_second": 99.0})
PEAKS = {
    "a peak that is known": (past(soon=500.0, ahead=500.0), {}, 7),
    "carried as it is, though the margin is eaten up": (past(soon=200.0, ahead=200.0), {}, None),
    "to its size and the margin": (past(soon=201.0, ahead=201.0), {}, 3),
    "at once what the next hours need": (past(soon=201.0, ahead=500.0), {}, 7),
    "more than comes in to most tasks": (past(soon=160.0), {"load": UNEVEN}, 3),
    "one key is not split by more tasks": (past(soon=130.0), {"load": HOT}, None),
    "an unusual day": (past(300.0, soon=500.0), {}, None),
    "the last minutes are unknown": (past(None, soon=500.0), {}, None),
    "too few days": (past(soon=500.0, days=1), {}, None),
    "later than soon": (past(soon=100.0, ahead=500.0), {}, None),
    "not looked at": (None, {}, None),
    "a rate that is not sure": (past(soon=500.0), {"rate": rate(is_lower_bound=True)}, None),
    "a rate of a profile": (past(soon=500.0), {"rate": rate(of_profile=True)}, None),
    "set by a higher layer": (past(soon=500.0), {"pinned": ["task_count"]}, None),
    "acted just now": (past(soon=500.0), {"last_action_at": NOW}, None),
}


@pytest.mark.parametrize(("found", "values", "tasks"), PEAKS.values(), ids=PEAKS.keys())
def test_a_job_is_ready_before_a_known_peak(found: Any, values: dict[str, Any], tasks: int | None) -> None:
    decision = decided(HEALTHY, job(2), known(100.0, workload=found, day=QUIET, **values))
    assert decision.symptom is Symptom.NONE
    assert decision.change == (None if tasks is None else {"task_count": tasks})


def test_pre_scaling_can_be_switched_off() -> None:
    values = known(100.0, workload=past(soon=500.0))
    assert decided(HEALTHY, job(2), values, prescale=False).change is None


def test_a_prepared_job_is_not_reduced_before_its_peak() -> None:
    values = known(100.0, workload=past(soon=500.0, ahead=500.0), day=QUIET, container_memory_bytes=GIB)
    assert decided(HEALTHY, job(7), values).change is None
