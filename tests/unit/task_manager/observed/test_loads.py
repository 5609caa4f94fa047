"""When a task's load is known, its value, and when it is reported; the clock is a number."""

from __future__ import annotations

from penstock.tasks.dimensions import CPU, DISK
from services.task_manager.decide.model import Limits
from services.task_manager.observed.loads import Loads

LIMITS = Limits(load_window_seconds=600.0, load_first_seconds=60.0, load_report_seconds=600.0)


def measured(loads: Loads, *amounts: float, at: float, name: str = CPU) -> None:
    """One sample every 10 s from `at` on."""
    for number, amount in enumerate(amounts):
        loads.add("a/0", {name: amount}, at + 10 * number)


def report(loads: Loads, now: float) -> dict[str, dict[str, float]]:
    due = loads.due(now)
    loads.reported(due, now)
    return due


def test_a_load_is_unknown_until_it_was_measured_for_a_while() -> None:
    loads = Loads(LIMITS)
    measured(loads, 9.0, 1.0, 1.0, 1.0, 1.0, 1.0, at=1000)
    assert loads.mean("a/0", 1059.9) == {}
    assert loads.due(1059.9) == {}
    assert loads.mean("a/0", 1060) == {CPU: 2.333}
    assert loads.mean("b/0", 1060) == {}


def test_a_load_is_the_mean_of_the_window_and_unknown_again_after_it() -> None:
    loads = Loads(LIMITS)
    measured(loads, *([4.0] * 60), *([1.0] * 60), at=0)
    assert loads.mean("a/0", 1190) == {CPU: 1.049}
    assert loads.mean("a/0", 1790) == {CPU: 1.0}
    assert loads.mean("a/0", 1791) == {}


def test_a_dimension_is_averaged_over_the_samples_that_have_it() -> None:
    loads = Loads(LIMITS)
    measured(loads, 1.0, 3.0, at=0)
    measured(loads, 100.0, at=20, name=DISK)
    assert loads.mean("a/0", 60) == {CPU: 2.0, DISK: 100.0}


def test_a_measured_zero_is_known() -> None:
    loads = Loads(LIMITS)
    measured(loads, 0.0, at=0)
    assert report(loads, 60) == {"a/0": {CPU: 0.0}}


def test_a_load_is_told_when_first_known_then_every_period() -> None:
    """1. Known after 60 s: told. 2. Nothing new for 10 minutes. 3. Told again."""
    loads = Loads(LIMITS)
    measured(loads, *([1.0] * 61), at=0)
    assert report(loads, 60) == {"a/0": {CPU: 1.0}}
    assert report(loads, 600) == {}
    assert report(loads, 659.9) == {}
    assert report(loads, 660) == {"a/0": {CPU: 1.0}}


def test_a_dimension_that_becomes_known_is_told_at_once_and_only_once() -> None:
    loads = Loads(LIMITS)
    measured(loads, 1.0, at=0)
    report(loads, 60)
    measured(loads, 7.0, at=70, name=DISK)
    assert report(loads, 71) == {"a/0": {CPU: 1.0, DISK: 7.0}}
    assert report(loads, 72) == {}


def test_what_nobody_has_taken_is_told_again() -> None:
    loads = Loads(LIMITS)
    measured(loads, 1.0, at=0)
    assert loads.due(60) == loads.due(62) == {"a/0": {CPU: 1.0}}


def test_a_task_that_ended_here_begins_anew() -> None:
    """A report that was on its way meanwhile says nothing about the task's next start."""
    loads = Loads(LIMITS)
    measured(loads, 1.0, at=0)
    due = loads.due(60)
    loads.forget("a/0")
    loads.reported(due, 61)
    measured(loads, 5.0, at=70)
    assert report(loads, 100) == {}
    assert report(loads, 130) == {"a/0": {CPU: 5.0}}
