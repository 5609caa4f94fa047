"""What speaks against a package and what does not: reports, silence, and what operators ask of a rollout."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from penstock.tasks.rollout import OrderedRollout, RolloutOrder, SeenTask
from services.state_syncer.decide.decisions import Record, StartRescale
from services.state_syncer.decide.view import JobView
from services.state_syncer.decide.waves import Stage
from tests.support.state_syncer.waves import (
    ENDS,
    NEW,
    NOW,
    OLD,
    RUNNING,
    TASKS,
    after,
    begun,
    config,
    kind_of,
    rolling,
    step,
    task,
    view,
)

# ---- what is reported of a wave, and what is not


def later(job: JobView, *seen: tuple[float, tuple[SeenTask | None, ...]]) -> list[str]:
    """What is done about the wave at each time, by what is seen of it then; what is recorded is kept."""
    kinds = []
    for seconds, tasks in seen:
        rolling_ = job.rolling
        assert rolling_ is not None
        job = replace(job, rolling=replace(rolling_, tasks=dict(enumerate(tasks))))
        decision = step(job, seconds)
        kinds.append(kind_of(decision))
        if isinstance(decision, Record):
            job = replace(job, rolling=replace(rolling_, plan=decision.plan))
    return kinds


def test_a_task_that_is_reported_as_not_healthy_for_long_enough_is_evidence() -> None:
    """1. Reports come after two minutes, and say that the task starts. 2. They say so for two minutes: a halt."""
    starting = (task("starting"),)
    assert later(rolling(begun()), (130, starting), (200, starting), (249, starting)) == ["late", "poll", "poll"]
    halt = step(_noted(rolling(begun()), (130, starting)), 250)
    assert (kind_of(halt), halt.rejected.task, halt.rejected.error) == ("halt", "j/0", "starting at revision 6")


def _noted(job: JobView, seen: tuple[float, tuple[SeenTask, ...]]) -> JobView:
    assert job.rolling is not None
    seconds, tasks = seen
    observed = replace(job.rolling, tasks=dict(enumerate(tasks)))
    return replace(job, rolling=replace(observed, plan=step(replace(job, rolling=observed), seconds).plan))


def test_each_task_has_its_own_time_to_come_to_run() -> None:
    """1. One task starts for 100 s, and then runs. 2. Another one starts from then on: its time begins then."""
    second = step(rolling(begun(), task(worked=True)))
    runs, starts = task(), task("starting")
    seen = [(1, (runs, starts, runs)), (100, (runs, runs, starts)), (219, (runs, runs, starts))]
    assert later(rolling(second), *seen) == ["record", "record", "late"]
    assert later(rolling(second), *seen, (220, (runs, runs, starts))) == ["record", "record", "late", "halt"]


def test_silence_in_between_is_no_evidence() -> None:
    """1. A task starts, says its container. 2. Nothing is heard for two minutes. 3. It still starts: its time begins
    anew, since nobody knows what it did meanwhile."""
    starts, silent = (task("starting"),), (task("starting", silent_since=after(10)),)
    assert later(rolling(begun()), (1, starts), (20, silent), (150, starts), (269, starts)) == [
        "record",
        "record",
        "late",
        "poll",
    ]


def test_a_late_wave_says_what_is_not_known_of_it_and_goes_on_when_it_is() -> None:
    roll = step(rolling(begun(), task(worked=True)))
    silent = task(worked=True, silent_since=after(60))
    late = step(rolling(roll, task(worked=True), silent), 150)
    told = "wave 2 of 4, 3 of 6 tasks upgraded, paused: no report of 2 of 3 upgraded tasks since 2026-01-01T00:00:01Z"
    assert late.plan.describe() == told
    job = rolling(Record(late.plan, roll.commit), *[task(worked=True)] * 3)
    assert kind_of(step(job, 151)) == "next"
    assert step(job, 151).plan.late == ""


def test_a_late_wave_names_the_task_that_does_not_have_the_package() -> None:
    late = step(rolling(begun(), task("stopping", revision=5)), 120)
    assert late.plan.late == "1 of 1 upgraded task not healthy yet: task 0: stopping at revision 5"


def test_a_wave_that_is_not_late_any_more_says_so() -> None:
    late = step(rolling(begun()), 120)
    again = step(rolling(Record(late.plan, begun().commit), task()), 121)
    assert (kind_of(again), again.plan.late, again.plan.well_since) == ("record", "", after(121))


# ---- what operators ask


def ordered(action: str, begun_at: datetime = NOW) -> OrderedRollout:
    return OrderedRollout(action=RolloutOrder(action), begun_at=begun_at, author="ann", reason="a look", at=NOW)


def with_order(job: JobView, order: OrderedRollout) -> JobView:
    assert job.rolling is not None
    return replace(job, rolling=replace(job.rolling, order=order))


def test_no_wave_begins_while_the_rollout_is_paused() -> None:
    job = with_order(rolling(begun(), task(worked=True)), ordered("pause"))
    noted = step(job)
    assert kind_of(noted) == "record"
    waits = step(with_order(rolling(Record(noted.plan, begun().commit), task(worked=True)), ordered("pause")), 500)
    assert (kind_of(waits), waits.why) == ("poll", "paused by ann: a look")
    assert waits.plan.describe(waits.why) == "wave 1 of 4, 1 of 6 tasks upgraded, paused by ann: a look"
    assert kind_of(step(rolling(Record(noted.plan, begun().commit), task(worked=True)), 501)) == "next"


def test_a_paused_rollout_is_not_over_after_its_last_wave() -> None:
    last = begun()
    for _ in ENDS[1:]:
        last = step(rolling(last, *[task(worked=True)] * TASKS))
    job = rolling(last, *[task(worked=True)] * TASKS)
    assert kind_of(step(with_order(job, ordered("pause")))) == "record"
    assert kind_of(step(job)) == "Finish"


def test_crashes_halt_a_paused_rollout_too() -> None:
    assert kind_of(step(with_order(rolling(begun(), task("crashed", crashes=3)), ordered("pause")))) == "halt"


def test_a_paused_package_does_not_go_out_by_another_size() -> None:
    job = rolling(begun(), task(worked=True), expected={**NEW, "task_count": 4}, revision=7)
    assert isinstance(step(job), StartRescale)
    assert kind_of(step(with_order(job, ordered("pause")))) == "record"
    assert isinstance(step(with_order(replace(job, expected={**OLD, "task_count": 4}), ordered("pause"))), StartRescale)


@pytest.mark.parametrize("worked", [True, False])
def test_an_aborted_rollout_goes_back_though_nothing_speaks_against_it(*, worked: bool) -> None:
    """Also to a package that never worked: an operator says so."""
    roll = begun(view(running=replace(RUNNING, is_proven=worked)))
    halt = step(with_order(rolling(roll, task(worked=True)), ordered("abort")))
    assert kind_of(halt) == "halt"
    assert (halt.plan.step, halt.plan.why) == (Stage.ROLL_BACK, "aborted by ann: a look")
    assert (halt.rejected.goes_back, halt.rejected.task, halt.rejected.error) == (True, None, "aborted by ann: a look")
    again = step(with_order(rolling(Record(halt.plan, roll.commit), task(worked=True)), ordered("abort")), 9)
    assert kind_of(again) == "poll", "it was carried out"


def test_a_halted_rollout_can_be_aborted_where_no_package_has_worked_before() -> None:
    roll = begun(view(running=replace(RUNNING, is_proven=False)))
    halt = step(rolling(roll, task("crashed", crashes=3)))
    assert not halt.rejected.goes_back
    aborted = step(with_order(rolling(Record(halt.plan, roll.commit)), ordered("abort")))
    assert (kind_of(aborted), aborted.rejected.goes_back) == ("halt", True)


@pytest.mark.parametrize("action", ["pause", "abort"])
def test_an_order_is_about_the_rollout_that_was_under_way(action: str) -> None:
    """1. A third package begins a rollout of its own. 2. What was asked of the one before is not about it."""
    job = with_order(rolling(begun(), task(worked=True)), ordered(action, NOW - timedelta(seconds=9)))
    assert kind_of(step(job)) == "next"
    third = with_order(rolling(begun(), expected=config("3"), revision=7), ordered(action))
    assert kind_of(step(third, 60)) == "next"
