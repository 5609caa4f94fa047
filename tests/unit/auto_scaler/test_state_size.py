"""Memory of state by regression: tables of what is learned, and of what follows for tasks and their memory."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from services.auto_scaler.decide.estimates import TaskMinute
from services.auto_scaler.decide.model import Action, DayHistory, StateSize
from services.auto_scaler.decide.policy import Policy
from services.auto_scaler.decide.state_size import (
    LEAST_MINUTES,
    bytes_in_tasks,
    bytes_with_input,
    estimate_state,
    tasks_for_state,
)
from tests.support.auto_scaler import MIB, NOW, QUIET, decided, job, load, past, rate, state, symptoms

MINUTES = 60
Measure = Callable[[int], float | None]


def minutes(came: Measure, rows: Measure, size: Measure, count: int = MINUTES) -> list[TaskMinute]:
    """What a task measured: the newest minute is number 0."""
    return [
        TaskMinute(NOW - timedelta(minutes=ago), 0, came(ago), 100.0, 0.0, rows(ago), size(ago)) for ago in range(count)
    ]


def tide(ago: int) -> float:
    return 100.0 + ago


def keys(ago: int) -> float:
    """Keys that come one after the other, whatever comes in."""
    return 10_000.0 - 50 * ago


@pytest.mark.parametrize(
    ("measured", "bytes_per_row", "seconds_kept"),
    [
        pytest.param(minutes(lambda _: 100.0, keys, lambda ago: 1e6 + 200 * keys(ago)), 200.0, None, id="by keys"),
        pytest.param(
            minutes(tide, lambda ago: 30 * tide(ago), lambda ago: 5e6 + 400 * 30 * tide(ago)), 400.0, 30.0, id="window"
        ),
        pytest.param(
            minutes(tide, lambda ago: 500 + 30 * tide(ago), lambda ago: 8.0 * (500 + 30 * tide(ago))),
            8.0,
            30.0,
            id="keys and a window",
        ),
    ],
)
def test_what_is_learned(measured: list[TaskMinute], bytes_per_row: float, seconds_kept: float | None) -> None:
    found = estimate_state(measured)
    assert found is not None
    assert found.bytes_per_row == pytest.approx(bytes_per_row)
    assert found.rows == measured[0].state_rows
    assert found.seconds_kept == (None if seconds_kept is None else pytest.approx(seconds_kept))


@pytest.mark.parametrize(
    "measured",
    [
        pytest.param([], id="nothing measured"),
        pytest.param(minutes(tide, lambda _: None, lambda _: None), id="no state"),
        pytest.param(minutes(tide, keys, lambda _: None), id="bytes unknown"),
        pytest.param(minutes(tide, keys, keys, LEAST_MINUTES - 1), id="few minutes"),
        pytest.param(minutes(tide, lambda _: 5e3, lambda _: 1e6), id="always the same rows"),
        pytest.param(minutes(tide, keys, lambda _: 5e6), id="bytes do not follow rows, as with RocksDB"),
        pytest.param(minutes(tide, keys, lambda ago: 9e6 * (ago % 2 + 1)), id="bytes have another cause"),
        pytest.param(minutes(tide, keys, lambda ago: 9e6 - 200 * keys(ago)), id="bytes fall while rows rise"),
        pytest.param(minutes(tide, keys, lambda ago: 2.0**21 * keys(ago)), id="more than a row can take"),
    ],
)
def test_without_evidence_nothing_is_estimated(measured: list[TaskMinute]) -> None:
    assert estimate_state(measured) is None


def test_rows_of_the_newest_minute_are_those_of_the_largest_task() -> None:
    measured = minutes(tide, keys, lambda ago: 200 * keys(ago))
    other = measured[0]._replace(task=1, state_rows=30_000.0, state_bytes=6e6)
    found = estimate_state([*measured, other])
    assert found is not None
    assert found.rows == 30_000.0


# A task uses 200 MiB, of which 100 MiB are 1,024 rows of state.
SIZE = StateSize(bytes_per_row=102_400.0, rows=1024.0, minutes=60, seconds_kept=10.24)


@pytest.mark.parametrize(("fewer", "mib"), [(8, 200), (4, 300), (2, 500), (1, 900)])
def test_only_the_state_is_dealt_anew(fewer: int, mib: int) -> None:
    assert bytes_in_tasks(200 * MIB, SIZE, 8, fewer) == mib * MIB


def test_state_is_no_more_than_what_a_task_uses() -> None:
    """As where the measures of both are of different times: all of it is dealt anew, as without an estimate."""
    assert bytes_in_tasks(50 * MIB, SIZE, 8, 4) == 100 * MIB


@pytest.mark.parametrize(("more", "mib"), [(-50.0, 200), (0.0, 200), (100.0, 300)])
def test_more_input_brings_more_rows(more: float, mib: int) -> None:
    assert bytes_with_input(200 * MIB, SIZE, more) == mib * MIB


def test_rows_of_keys_do_not_come_with_input() -> None:
    assert bytes_with_input(200 * MIB, SIZE.model_copy(update={"seconds_kept": None}), 1e6) == 200 * MIB


@pytest.mark.parametrize(("mib", "tasks"), [(200, 8), (250, 8), (300, 6), (375, 4), (1125, 1), (9000, 1)])
def test_the_fewest_tasks_in_which_the_state_has_room(mib: int, tasks: int) -> None:
    assert tasks_for_state(200 * MIB, SIZE, 8, mib * MIB, Policy(memory_headroom=0.25)) == tasks


HOUR = DayHistory(minutes_measured=1400, minutes_lagging=9, minutes_out_of_memory=0, minutes_quiet=60)
KNOWN: dict[str, Any] = {"day": HOUR, "rate": rate(), "load": load(300.0), "workload": past(ahead=300.0)}
USED = 240 * MIB
SMALL = StateSize(bytes_per_row=1024.0, rows=20 * 1024.0, minutes=60)


@pytest.mark.parametrize(("size", "tasks"), [(None, 11), (SMALL, 8)], ids=["by used memory alone", "by the state"])
def test_a_job_with_little_state_may_have_fewer_tasks(size: StateSize | None, tasks: int) -> None:
    """16 tasks of 400 MiB that use 240 MiB each, of which 20 MiB are state."""
    known = {**KNOWN, "memory_used_bytes": USED, "state_size": size}
    assert decided(symptoms(), job(16), state(**known)).change == {"task_count": tasks}


@pytest.mark.parametrize(("size", "mib"), [(None, 450), (SIZE, 550)], ids=["by used memory alone", "by the state"])
def test_memory_is_kept_for_the_rows_that_past_days_bring(size: StateSize | None, mib: int) -> None:
    """Two tasks of 600 MiB use 360 MiB each. In the next hours 160 rows/s more came in on past days: 80 MiB each."""
    known = {"day": QUIET, "rate": rate(1000.0), "load": load(300.0), "workload": past(300.0, soon=300.0, ahead=460.0)}
    known |= {"memory_used_bytes": 360 * MIB, "state_size": size, "declared_memory_bytes": 400 * MIB}
    unusual = {"unusual_ratio": 10.0}
    config = job(2, resources={"memory_bytes": 600 * MIB})
    decision = decided(symptoms(), config, state(**known), **unusual)
    assert decision.action is Action.DECREASE_MEMORY
    assert decision.change == {"resources": {"memory_bytes": mib * MIB}}
