"""Windows, limits and the circuit breaker."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from services.auto_scaler.decide.decision import classify_symptom
from services.auto_scaler.decide.guards import count_fleet, why_frozen, why_hold, why_no_reduction
from services.auto_scaler.decide.model import Action, Fleet, Situation
from services.auto_scaler.decide.policy import Policy, Window
from tests.support.auto_scaler import NOW, change, job, situation, state, symptoms

# NOW is a Saturday, 12:00 UTC.
WINDOWS = {
    "within": ({"start": "11:00", "end": "13:00"}, True),
    "from its start": ({"start": "12:00", "end": "13:00"}, True),
    "not at its end": ({"start": "11:00", "end": "12:00"}, False),
    "on that day": ({"start": "11:00", "end": "13:00", "weekdays": [5]}, True),
    "on another day": ({"start": "11:00", "end": "13:00", "weekdays": [4]}, False),
    "over midnight, before": ({"start": "22:00", "end": "13:00"}, True),
    "over midnight, of the day before": ({"start": "22:00", "end": "13:00", "weekdays": [4]}, True),
    "over midnight, of this day": ({"start": "22:00", "end": "13:00", "weekdays": [5]}, False),
    "over midnight, not yet": ({"start": "22:00", "end": "06:00"}, False),
}


@pytest.mark.parametrize(("window", "is_in"), WINDOWS.values(), ids=WINDOWS.keys())
def test_windows(window: dict[str, Any], is_in: bool) -> None:
    assert Window.model_validate(window).contains(NOW) is is_in


NONSENSE: dict[str, tuple[dict[str, Any], str]] = {
    "an eighth weekday": ({"weekdays": [7]}, r"peak_hours\.0\.weekdays"),
    "a start in UTC": ({"start": "08:00Z"}, r"peak_hours\.0\.start\n.*must be a time of day in UTC, such as 08:00"),
    "an end in another zone": ({"end": "20:00+02:00"}, r"peak_hours\.0\.end\n.*must be a time of day in UTC"),
    "no length": ({"end": "08:00"}, r"peak_hours\.0\.end\n.*must differ from start"),
}


@pytest.mark.parametrize(("window", "said"), NONSENSE.values(), ids=NONSENSE.keys())
def test_a_window_that_makes_no_sense_is_named(window: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Policy.model_validate({"peak_hours": [{"start": "08:00", "end": "20:00"} | window]})


WINDOW = [{"start": "11:00", "end": "13:00"}]


def held(*, reduction: bool, known: dict[str, Any] | None = None, **policy: Any) -> str | None:
    case = situation(symptoms(), job(), state(**(known or {})), **policy)
    return why_no_reduction(case) if reduction else why_hold(case)


def test_in_peak_hours_nothing_is_taken_away_and_in_maintenance_nothing_is_changed() -> None:
    assert held(reduction=False, peak_hours=WINDOW) is None
    assert "peak hours" in (held(reduction=True, peak_hours=WINDOW) or "")
    for reduction in (False, True):
        assert "maintenance window" in (held(reduction=reduction, maintenance=WINDOW) or "")


@pytest.mark.parametrize(
    ("seconds", "up", "down"), [(299, True, True), (300, False, True), (3599, False, True), (3600, False, False)]
)
def test_fast_up_slow_down(seconds: int, up: bool, down: bool) -> None:
    known = {"last_action_at": NOW - timedelta(seconds=seconds)}
    assert (held(reduction=False, known=known) is not None) is up
    assert (held(reduction=True, known=known) is not None) is down


FLEETS = {
    "not looked at": (None, False),
    "all well": (Fleet(jobs=100, lagging=0, unmeasured=0), False),
    "a share lags": (Fleet(jobs=100, lagging=30, unmeasured=0), False),
    "many lag": (Fleet(jobs=100, lagging=31, unmeasured=0), True),
    "few jobs": (Fleet(jobs=19, lagging=19, unmeasured=19), False),
    "half are not measured": (Fleet(jobs=20, lagging=0, unmeasured=10), False),
    "most are not measured": (Fleet(jobs=20, lagging=0, unmeasured=11), True),
}


@pytest.mark.parametrize(("fleet", "is_frozen"), FLEETS.values(), ids=FLEETS.keys())
def test_the_circuit_breaker(fleet: Fleet | None, is_frozen: bool) -> None:
    assert (why_frozen(fleet, Policy()) is not None) is is_frozen


OLD, NEW = NOW - timedelta(hours=1), NOW - timedelta(seconds=200)
UNDONE = change(Action.UNDO, 4, 2)
COUNTED: dict[str, tuple[float | None, dict[str, Any], tuple[int, int, int]]] = {
    "over the SLO": (91.0, {}, (1, 1, 0)),
    "at the SLO": (90.0, {}, (1, 0, 0)),
    "healthy": (0.0, {}, (1, 0, 0)),
    "not measured": (None, {}, (1, 0, 1)),
    "not measured yet": (None, {"running_since": NEW}, (0, 0, 0)),
    "lag since a restart": (91.0, {"running_since": NEW}, (1, 1, 0)),
    "another configuration runs": (91.0, {"converged": False}, (0, 0, 0)),
    "set by a higher layer": (91.0, {"pinned": ["task_count"]}, (0, 0, 0)),
    "stopped": (91.0, {"last_change": UNDONE}, (0, 0, 0)),
    "healthy, but set by a higher layer": (0.0, {"pinned": ["task_count"]}, (0, 0, 0)),
}


@pytest.mark.parametrize(("lag", "known", "counted"), COUNTED.values(), ids=COUNTED.keys())
def test_only_jobs_that_may_act_count(lag: float | None, known: dict[str, Any], counted: tuple[int, int, int]) -> None:
    case = situation(symptoms(lag), job(), state(**{"running_since": OLD} | known))
    assert fleet_of(case) == counted


def test_a_job_at_its_limit_does_not_count() -> None:
    assert fleet_of(situation(symptoms(91.0), job(max_task_count=2), state())) == (0, 0, 0)


def fleet_of(case: Situation) -> tuple[int, int, int]:
    found = count_fleet([(classify_symptom(case.symptoms, case.config, case.policy), case)])
    return found.jobs, found.lagging, found.unmeasured
