"""Lag that more tasks do not cure: undo once, then people; one growth after an update; slow tasks; a stuck backlog."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from services.auto_scaler.decide.decision import needs_recent
from services.auto_scaler.decide.model import Action, Fleet, JobUpdate, PastChange, Symptom, set_above
from services.auto_scaler.decide.symptoms import TaskSample, detect
from tests.support.auto_scaler import NOW, change, decided, job, load, rate, situation, state, symptoms

GREW = change(Action.INCREASE_TASKS, 2, 4, lag_seconds=200.0, processed_rows_per_second=200.0)
SOON = JobUpdate(at=NOW - timedelta(minutes=5), author="ann")


def after_growth(lag: float, processed: float | None, **values: Any) -> Any:
    """Four tasks, that were two; 60 rows/s more than 200 are 30 % of what two more tasks promised."""
    found = symptoms(lag, processed_rows_per_second=processed)
    return decided(found, job(4), state(**{"last_change": GREW} | values))


EFFECTS: dict[str, tuple[float, float | None, Action]] = {
    "as fast as promised": (200.0, 400.0, Action.INCREASE_TASKS),
    "somewhat faster": (200.0, 260.0, Action.INCREASE_TASKS),
    "hardly faster": (181.0, 259.0, Action.UNDO),
    "slower": (200.0, 100.0, Action.UNDO),
    "not faster, but the lag is less": (180.0, 200.0, Action.INCREASE_TASKS),
    "unknown": (200.0, None, Action.INCREASE_TASKS),
}


@pytest.mark.parametrize(("lag", "processed", "action"), EFFECTS.values(), ids=EFFECTS.keys())
def test_an_increase_without_effect_is_undone(lag: float, processed: float | None, action: Action) -> None:
    decision = after_growth(lag, processed)
    assert (decision.action, decision.untriaged) == (action, action is Action.UNDO)
    assert decision.change == {"task_count": 2 if action is Action.UNDO else 8}


def test_an_increase_is_not_undone_because_new_tasks_had_no_row_yet() -> None:
    rates = enumerate([100.0, 100.0, 0.0, 0.0])
    samples = [TaskSample(index=index, processed_rows_per_second=rate, backlog_records=20_000) for index, rate in rates]
    decision = decided(detect(samples, 4), job(4), state(last_change=GREW))
    assert decision.symptom is Symptom.LAG
    assert decision.action is not Action.UNDO


NO_UNDO: dict[str, dict[str, Any]] = {
    "a while ago": {"last_change": GREW.model_copy(update={"at": NOW - timedelta(seconds=900)})},
    "another number runs": {"last_change": GREW.model_copy(update={"tasks_after": 3})},
    "it answered no lag": {"last_change": GREW.model_copy(update={"lag_seconds": 45.0})},
    "updated since": {"update": SOON},
}


@pytest.mark.parametrize("values", NO_UNDO.values(), ids=NO_UNDO.keys())
def test_an_increase_that_says_nothing_now_is_not_undone(values: dict[str, Any]) -> None:
    assert after_growth(200.0, 100.0, **values).action is Action.INCREASE_TASKS


def test_an_increase_is_judged_from_the_restart_on() -> None:
    """It took half an hour to copy the state of the job."""
    grew = GREW.model_copy(update={"at": NOW - timedelta(minutes=40)})
    decision = after_growth(200.0, 100.0, last_change=grew, running_since=NOW - timedelta(minutes=10))
    assert decision.action is Action.UNDO


STAYS: dict[str, tuple[dict[str, Any], str]] = {
    "set by a higher layer": ({"pinned": ["task_count"]}, set_above("task_count")),
    "declared": ({"declared_task_count": 4}, "the job declares 4 tasks"),
}


@pytest.mark.parametrize(("values", "limit"), STAYS.values(), ids=STAYS.keys())
def test_what_cannot_be_undone_is_asked_of_people(values: dict[str, Any], limit: str) -> None:
    decision = after_growth(200.0, 100.0, **values)
    assert (decision.action, decision.untriaged, decision.limits) == (Action.NONE, True, (limit,))


UNDONE = change(Action.UNDO, 4, 2)


def undone(*, hours: float, processed: float | None) -> PastChange:
    return UNDONE.model_copy(update={"at": NOW - timedelta(hours=hours), "processed_rows_per_second": processed})


AT_100 = UNDONE.model_copy(update={"input_rows_per_second": 100.0})
STOPS: dict[str, tuple[dict[str, Any], bool]] = {
    "undone lately": ({}, True),
    "also while it could not act": ({"last_action_at": NOW}, True),
    "an hour ago, and not faster since": ({"last_change": undone(hours=1, processed=154.0)}, True),
    "an hour ago, and faster since": ({"last_change": undone(hours=1, processed=153.0)}, False),
    "an hour ago, and nobody knows": ({"last_change": undone(hours=1, processed=None)}, False),
    "a day ago": ({"last_change": undone(hours=24, processed=154.0)}, False),
    "faster at once is no reason": ({"last_change": undone(hours=0.5, processed=153.0)}, True),
    "updated since": ({"update": SOON}, False),
    "half as much again comes in": ({"last_change": AT_100, "load": load(151.0)}, False),
    "somewhat more comes in": ({"last_change": AT_100, "load": load(150.0)}, True),
    "what came in then is not known": ({"load": load(151.0)}, True),
    "what comes in is not known": ({"last_change": AT_100}, True),
}


@pytest.mark.parametrize(("values", "stops"), STOPS.values(), ids=STOPS.keys())
def test_after_an_undo_nothing_grows_for_a_while(values: dict[str, Any], stops: bool) -> None:
    decision = decided(
        symptoms(500.0, processed_rows_per_second=200.0), job(2), state(**{"last_change": UNDONE} | values)
    )
    assert (decision.change is None, decision.untriaged) == (stops, stops)


@pytest.mark.parametrize(("last", "looks"), [(AT_100, True), (UNDONE, False)])
def test_what_comes_in_is_looked_at_while_it_could_end_the_stop(last: PastChange, looks: bool) -> None:
    assert needs_recent(situation(symptoms(500.0), job(2), state(last_change=last))) is looks


GROWN_SINCE = change(Action.INCREASE_TASKS, 1, 2, at=NOW - timedelta(minutes=8))
UPDATED = JobUpdate(at=NOW - timedelta(minutes=20), author="ann")
WATCHES: dict[str, tuple[dict[str, Any], bool]] = {
    "it may grow once": ({"update": UPDATED}, False),
    "it has grown since": ({"update": UPDATED, "last_change": GROWN_SINCE}, True),
    "it had grown before": ({"update": SOON, "last_change": GROWN_SINCE}, False),
    "updated long ago": ({"update": JobUpdate(at=NOW - timedelta(minutes=31), author="ann")}, False),
}


@pytest.mark.parametrize(("values", "watches"), WATCHES.values(), ids=WATCHES.keys())
def test_a_job_that_a_person_updated_grows_once_and_is_watched(values: dict[str, Any], watches: bool) -> None:
    decision = decided(symptoms(100.0), job(2), state(**values))
    assert (decision.change is None) is watches
    assert not watches or decision.limits == (
        "ann updated the job at 11:40 UTC, and it has grown once since: it is watched until 12:10 UTC",
    )


# Four tasks of which each does 100 rows/s; 200 come in.
ENOUGH: dict[str, tuple[float, float | None, bool]] = {
    "what waits becomes less": (400.0, -50.0, False),
    "what waits grows": (400.0, 50.0, True),
    "what waits stays": (400.0, 0.0, True),
    "nobody knows": (400.0, None, False),
    "the tasks are down": (59.0, -1.0, True),
}


@pytest.mark.parametrize(("processed", "growth", "untriaged"), ENOUGH.values(), ids=ENOUGH.keys())
def test_lag_though_the_tasks_are_enough(processed: float, growth: float | None, untriaged: bool) -> None:
    found = symptoms(100.0, processed_rows_per_second=processed)
    decision = decided(found, job(4), state(rate=rate(), load=load(200.0, 9000.0, growth)))
    assert (decision.change, decision.untriaged) == (None, untriaged)


def test_when_many_jobs_lag_at_once_none_is_changed() -> None:
    frozen = Fleet(jobs=100, lagging=31, unmeasured=0)
    for found in (symptoms(100.0), symptoms(0.0)):
        decision = decided(found, job(4), state(fleet=frozen))
        assert (decision.change, decision.limits) == (
            None,
            ("31 of 100 jobs lag at once, so no job is scaled until people know why",),
        )
    short_of_memory = decided(symptoms(0.0, out_of_memory=True), job(4), state(fleet=frozen))
    assert short_of_memory.action is Action.INCREASE_MEMORY


def test_an_outage_is_no_reason_to_take_an_increase_back() -> None:
    """Four tasks get through less than two did: one in fifty of what they can. Growth would be stopped for a day."""
    decision = after_growth(200.0, 8.0, rate=rate())
    assert (decision.action, decision.untriaged) == (Action.NONE, True)
    assert "something slows them down" in decision.reason


UNFINISHED: dict[str, tuple[float, Symptom, bool]] = {
    "over the SLO": (130.0, Symptom.LAG, True),
    "not over it yet": (50.0, Symptom.LAG, False),
    "not long yet": (20.0, Symptom.UNKNOWN, False),
}


@pytest.mark.parametrize(("age", "symptom", "untriaged"), UNFINISHED.values(), ids=UNFINISHED.keys())
def test_a_batch_that_does_not_end_is_no_reason_to_grow(age: float, symptom: Symptom, untriaged: bool) -> None:
    """Its rows need a second by the rate of the batches before. Nor is it a sign of health."""
    decision = decided(symptoms(age, lag_basis="age"), job(), state(rate=rate(), load=load(50.0, backlog=100.0)))
    assert (decision.symptom, decision.action, decision.untriaged) == (symptom, Action.NONE, untriaged)
    assert "a batch has not finished" in decision.reason
