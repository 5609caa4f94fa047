"""Less only where the estimate and past days allow it: tables."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from penstock.tasks.dimensions import DISK, NETWORK
from services.auto_scaler.decide.model import Action, DayHistory, JobUpdate, PastChange, Use
from tests.support.auto_scaler import GIB, MIB, NOW, QUIET, change, decided, job, load, past, rate, state, symptoms

HOUR = DayHistory(minutes_measured=1400, minutes_lagging=9, minutes_out_of_memory=0, minutes_quiet=60)
SHORT = HOUR.model_copy(update={"minutes_quiet": 59})
# 16 tasks of 64 key groups; a task does 100 rows/s, 300 come in, and on past days no more came in the next hours.
UNEVEN = load(300.0).model_copy(update={"busiest_rows_per_second": 50.0})
KNOWN: dict[str, Any] = {"day": HOUR, "rate": rate(), "load": load(300.0), "workload": past(ahead=300.0)}


def lagged_with(tasks: int, after: int = 16, *, hours: float = 3, lag: float = 91.0) -> PastChange:
    return change(Action.INCREASE_TASKS, tasks, after, at=NOW - timedelta(hours=hours), lag_seconds=lag)


def use(dimension: str, of_task: float) -> Use:
    """Of 100 GiB of a container a task should take 20 at most, and has a quarter to spare."""
    return Use(dimension=dimension, of_task=of_task, of_container=100 * GIB)


TASKS: dict[str, tuple[dict[str, Any], int | None]] = {
    "half at most": ({}, 8),
    "a lower bound of the rate is good enough": ({"rate": rate(is_lower_bound=True)}, 8),
    "a rate of a profile is not, what was measured is": (
        {"rate": rate(1000.0, is_lower_bound=True, of_profile=True, latest_rows_per_second=35.0)},
        11,
    ),
    "not below what comes in": ({"load": load(800.0)}, 11),
    "not below past days": ({"workload": past(ahead=880.0)}, 11),
    "a few tasks are not worth a restart": ({"workload": past(ahead=1000.0)}, None),
    "the last few tasks are": ({"workload": past(ahead=1000.0), "declared_task_count": 13}, 13),
    "past days need what there is": ({"workload": past(ahead=1300.0)}, None),
    "not below what is declared": ({"declared_task_count": 10}, 10),
    "an hour is not over": ({"day": SHORT}, None),
    "an unusual day": ({"workload": past(300.0, ahead=100.0)}, None),
    "the last minutes are unknown": ({"workload": past(None, ahead=300.0)}, None),
    "an unusual day after a quiet one": ({"workload": past(300.0), "day": QUIET}, None),
    "one past day, and an hour without lag": ({"workload": past(days=1)}, None),
    "one past day, and a day without lag": ({"workload": past(days=1), "day": QUIET}, 11),
    "no past day, and a day without lag": ({"workload": past(days=0), "day": QUIET}, 11),
    "one past day counts all the same": ({"workload": past(days=1, ahead=1300.0), "day": QUIET}, None),
    "neither rate nor past day, and a day without lag": ({"rate": None, "workload": past(days=0), "day": QUIET}, 11),
    "no rate, and past days without input": ({"rate": None, "workload": past(ahead=0.0), "day": QUIET}, 11),
    "no rate, and past days had a peak": ({"rate": None, "day": QUIET}, None),
    "what comes in is unknown, and past days had a peak": ({"load": None, "day": QUIET}, None),
    "P is plainly too small": ({"load": load(1700.0)}, None),
    "not below what the memory for the state allows": ({"memory_used_bytes": 200 * MIB}, 10),
    "too little memory for fewer tasks": ({"memory_used_bytes": 300 * MIB}, None),
    "not below what the disk of a container allows": ({"uses": (use(DISK, 10 * GIB),)}, 10),
    "nor its network": ({"uses": (use(DISK, 1.0), use(NETWORK, 15 * GIB))}, None),
    "disk enough for fewer tasks": ({"uses": (use(DISK, 6 * GIB),)}, 8),
    "not below what the busiest task needs": ({"load": UNEVEN}, 11),
    "memory enough for fewer tasks": ({"memory_used_bytes": 160 * MIB}, 8),
}


def test_the_dimension_that_binds_is_said() -> None:
    limits = decided(symptoms(), job(16, key_groups=64), state(**KNOWN, uses=(use(DISK, 16 * GIB),))).limits
    assert limits == ("it needs 16 tasks: fewer would take more of disk_bytes than a task should",)


@pytest.mark.parametrize(("values", "tasks"), TASKS.values(), ids=TASKS.keys())
def test_fewer_tasks(values: dict[str, Any], tasks: int | None) -> None:
    decision = decided(symptoms(), job(16), state(**KNOWN | values))
    assert decision.change == (None if tasks is None else {"task_count": tasks})
    assert tasks is not None or len(decision.limits) == 1, "what speaks against it is said"


LAGGED: dict[str, tuple[PastChange, dict[str, Any], int | None]] = {
    "as few tasks lagged": (lagged_with(8), {}, 10),
    "fewer tasks lagged": (lagged_with(5), {}, 8),
    "one step less lagged": (lagged_with(13), {}, None),
    "a day ago": (lagged_with(8, hours=24), {}, 8),
    "updated since": (lagged_with(8), {"update": JobUpdate(at=NOW - timedelta(hours=1), author="ann")}, 8),
    "it grew without lag": (lagged_with(8, lag=45.0), {}, 8),
    "it grew again since": (change(Action.INCREASE_TASKS, 8, 12, lag_seconds=91.0), {}, 8),
}


@pytest.mark.parametrize(("grew", "values", "tasks"), LAGGED.values(), ids=LAGGED.keys())
def test_tasks_that_lagged_are_too_few_for_a_day(grew: PastChange, values: dict[str, Any], tasks: int | None) -> None:
    decision = decided(symptoms(), job(16), state(**KNOWN | values, last_change=grew))
    assert decision.change == (None if tasks is None else {"task_count": tasks})
    assert tasks == 8 or decision.limits == (f"{grew.tasks_before} tasks lagged in the last 24 hours",)


def test_tasks_that_lagged_are_too_few_though_more_carry_no_more() -> None:
    """Five of eight tasks lagged, and six and seven carry no more of the eight key groups."""
    decision = decided(symptoms(), job(8, key_groups=8), state(**KNOWN, last_change=lagged_with(5, 8)))
    assert (decision.change, decision.limits) == (None, ("5 tasks lagged in the last 24 hours",))


BACKLOG: dict[str, tuple[float | None, dict[str, Any], int | None]] = {
    "those before carried what came in, so the others go at once": (300.0, {}, 5),
    "those before were too few for what came in": (400.0, {}, None),
    "what came in then is not known": (None, {}, None),
    "what a task does is not sure": (300.0, {"rate": rate(is_lower_bound=True)}, None),
    "what a task does is known by a profile": (300.0, {"rate": rate(of_profile=True)}, None),
    "not an hour without lag": (300.0, {"day": SHORT}, None),
    "not below what comes in now": (300.0, {"load": load(800.0)}, 11),
    "not on an unusual day": (300.0, {"workload": past(300.0, days=1)}, None),
    "not below what the memory for the state allows": (300.0, {"memory_used_bytes": 200 * MIB}, 10),
}


@pytest.mark.parametrize(("came_in", "values", "tasks"), BACKLOG.values(), ids=BACKLOG.keys())
def test_what_was_added_for_a_backlog_alone_goes_with_it(
    came_in: float | None, values: dict[str, Any], tasks: int | None
) -> None:
    """From 4 to 16 tasks three hours ago; no past day is known."""
    grew = lagged_with(4).model_copy(update={"input_rows_per_second": came_in})
    known = KNOWN | {"workload": past(days=0), "last_change": grew} | values
    decision = decided(symptoms(), job(16), state(**known))
    assert decision.change == (None if tasks is None else {"task_count": tasks})


def test_key_groups_are_dealt_evenly_when_tasks_go() -> None:
    """Six of eight tasks would carry what four do: some task has two key groups."""
    values = {"day": QUIET, "declared_task_count": 2}
    assert decided(symptoms(), job(8, key_groups=8), state(**values)).change == {"task_count": 4}
    assert decided(symptoms(), job(8, key_groups=8), state(**values | {"declared_task_count": 5})).change == {
        "task_count": 5
    }


def test_p_is_corrected_before_anything_else() -> None:
    decision = decided(symptoms(), job(16), state(**KNOWN | {"load": load(1700.0)}))
    assert decision.limits[0].startswith("a task was thought to do 100 rows/s but does 106 without lag")


GROWN = {"memory_bytes": 800 * MIB}
MEMORY: dict[str, tuple[dict[str, Any], int | None]] = {
    "a quarter": ({"memory_used_bytes": 100 * MIB}, 600),
    "what is used is not known": ({}, None),
    "not below what is used, and a quarter more": ({"memory_used_bytes": 560 * MIB}, 700),
    "all of it is used": ({"memory_used_bytes": 640 * MIB}, None),
    "an hour is not enough": ({"day": HOUR, "memory_used_bytes": 100 * MIB}, None),
}


@pytest.mark.parametrize(("values", "mib"), MEMORY.values(), ids=MEMORY.keys())
def test_less_memory(values: dict[str, Any], mib: int | None) -> None:
    decision = decided(symptoms(), job(2, resources=GROWN), state(**{"day": QUIET} | values))
    assert decision.change == (None if mib is None else {"resources": {"memory_bytes": mib * MIB}})


def test_memory_goes_when_no_task_can() -> None:
    values = KNOWN | {"day": QUIET, "workload": past(ahead=1300.0), "memory_used_bytes": 100 * MIB}
    decision = decided(symptoms(), job(16, resources=GROWN), state(**values))
    assert (decision.action, len(decision.limits)) == (Action.DECREASE_MEMORY, 1)
