"""What on-call must read first: a crash that goes on, a change that fails again and again, and no slow output that is
only cold."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.model.alerts import AlertKind
from penstock.model.causes import CauseKind, Certainty
from penstock.model.jobs import JobState
from penstock.model.states import Health
from services.job_service.causes.facts import Attempts, ContainerEvidence, Crashes, Elsewhere, Facts, Upstream
from services.job_service.causes.rank import causes_of, open_alerts
from tests.support.job_service.causes import BUSY, WELL, ago, alert, facts, failed, task

C1 = ContainerEvidence("c1", True, "open", None, 0, 0, 0)
UNKNOWN = "Failed to delete the folder"
UPSTREAM = [Upstream("up", "t", Health.LAGGING, "task 0: is behind")]
TWICE = Attempts(2, ("task_count",), "step quiesce: timed out: 1 task has not finished its batch", None)
AGAIN: dict[str, Any] = {"state": JobState.RESCALING, "detail": "copy_state: c1 copies the state"}
FIRST = [
    ("an unknown error, and a job upstream lags", facts([failed(UNKNOWN)], upstream=UPSTREAM), "other_error"),
    (
        "an unknown error just now, and a job upstream lags",
        facts([failed(UNKNOWN, crashes=1)], upstream=UPSTREAM),
        "other_error",
    ),
    (
        "an unknown error of a task that starts again after it, a minute ago",
        facts([failed(UNKNOWN, crashes=1, state="running")], crashes=[Crashes(0, (ago(60),), "x")], upstream=UPSTREAM),
        "other_error",
    ),
    (
        "an unknown error of long ago, and a job upstream lags",
        facts([failed(UNKNOWN, crashes=1, state="running")], crashes=[Crashes(0, (ago(900),), "x")], upstream=UPSTREAM),
        "upstream",
    ),
    (
        "an unknown error, and another task waits for a producer",
        facts([failed(UNKNOWN), task(1, progress=WELL | {"held_back_by": "up/0/1", "held_back_seconds": 90.0})]),
        "other_error",
    ),
    (
        "an unknown error, while a change fails",
        facts([failed(UNKNOWN)], job={"state": JobState.FAILED, "detail": "no disk"}, attempts=TWICE),
        "other_error",
    ),
    (
        "an unknown error, and its other task does well elsewhere",
        facts([failed(UNKNOWN), task(1, "c2")], containers=[C1]),
        "other_error",
    ),
    (
        "an unknown error, which tasks of other jobs have there too",
        facts(
            [failed(UNKNOWN), task(1, "c2")],
            containers=[C1._replace(others=4, bad_others=3, bad_jobs=2)],
            elsewhere=Elsewhere(50, 1),
        ),
        "bad_container",
    ),
    ("a change that failed", facts([task()], job={"state": JobState.FAILED}, attempts=TWICE), "change_failed"),
    ("a change that is tried again", facts([task()], job=AGAIN, attempts=TWICE), "change_failed"),
]


@pytest.mark.parametrize(("known", "kind"), [row[1:] for row in FIRST], ids=[row[0] for row in FIRST])
def test_the_first_cause(known: Facts, kind: str) -> None:
    found = causes_of(known)
    assert [each.kind for each in found][:1] == [CauseKind(kind)], found


@pytest.mark.parametrize(
    ("state", "next_at", "told"),
    [
        (JobState.FAILED, ago(-30), "the next attempt is at 12:00:30 UTC"),
        (JobState.RESCALING, None, "it is tried now: copy_state: c1 copies the state"),
    ],
)
def test_a_change_that_fails_says_how_often_and_why_and_when_next(state: JobState, next_at: Any, told: str) -> None:
    known = facts([task()], job=AGAIN | {"state": state}, attempts=TWICE._replace(next_at=next_at))
    (first,) = causes_of(known)
    assert first.summary == "the last change of task_count could not be made, and is tried again"
    assert first.evidence == (f"2 attempts failed; the last one: {TWICE.reason}", told)
    unknown = facts([task()], job=AGAIN, attempts=TWICE._replace(reason="", failures=1))
    assert causes_of(unknown)[0].evidence[0] == "one attempt failed"


def test_no_slow_output_is_accused_by_the_first_batches_since_a_start() -> None:
    """A rate is known once it is warm: then the same age is that of a batch that does not finish."""
    cold: dict[str, Any] = {"batch_id": 0, "backlog_records": 900, "oldest_unread_seconds": 120.0, "busy_share": 0.1}
    kinds = [each.kind for each in causes_of(facts([task(progress=cold)]))]
    assert kinds == [CauseKind.WARMING_UP]
    warm = [each.kind for each in causes_of(facts([task(progress=cold | {"processed_rows_per_second": 50.0})]))]
    assert warm == [CauseKind.OUTPUT_ERROR]


def test_a_job_that_has_just_started_says_when_its_lag_is_known() -> None:
    """1. Two batches of 3 s, and those of the first 30 s of a host, do not count; the next one ends 6 s later at most.
    2. With a rate, with no backlog told, or on a silent host, that is no cause."""
    cold: dict[str, Any] = {"batch_id": 1, "backlog_records": 900}
    known = facts([task(0, progress=cold), task(1)], config={"trigger_interval_seconds": 3.0})
    [cause] = causes_of(known)
    assert (known.verdict.health, cause.kind) == (Health.UNKNOWN, CauseKind.WARMING_UP)
    assert cause.evidence == ("task 0: rows wait, and no batch since its start shows how fast it works",)
    assert "it is known about 36 s after the start" in cause.advice
    slow = facts([task(0, progress=cold)], config={"trigger_interval_seconds": 600.0})
    assert "it is known about 1,800 s after the start" in causes_of(slow)[0].advice
    for changed in ({"processed_rows_per_second": 0.0}, {"backlog_records": None}, {"silent_seconds": 40.0}):
        other = facts([task(0, progress=cold | changed)])
        assert other.verdict.health is Health.UNKNOWN
        assert causes_of(other) == []


def test_open_alerts_of_a_job_are_told_also_when_it_is_well() -> None:
    """Those of its tasks too; not those of another job or of a container, and none that a cause tells."""
    alerts = [alert("malformed_records"), alert("slow", "etl/0"), alert("slow", "etl2"), alert("slow", "c1")]
    well = facts([task()], alerts=alerts)
    assert causes_of(well) == []
    assert open_alerts(well, []) == [
        "alert malformed_records is open since 2026-01-01 11:59 UTC: malformed_records etl",
        "alert slow is open since 2026-01-01 11:59 UTC: slow etl/0",
    ]
    ill = facts([failed(UNKNOWN)], alerts=alerts)
    assert [each.partition(" is")[0] for each in open_alerts(ill, causes_of(ill))] == ["alert slow"]
    silenced = facts([task()], alerts=[alerts[0].model_copy(update={"silence": 3})])
    assert "(left out of lists by silence 3)" in open_alerts(silenced, [])[0]


def test_late_rows_are_told_of_a_healthy_job_too() -> None:
    """1. Tasks drop late rows, one does not wait for a producer: certain. 2. A job that lags has that for a cause
    first. 3. An alert without a task that reports it, as after a restart."""
    problems = {AlertKind.LATE_ROWS.value: "7 late rows", AlertKind.NOT_AWAITED.value: "up/1/3 said nothing"}
    late = WELL | {"input_problems": problems}
    (found,) = causes_of(facts([task(progress=late), task(1)]))
    assert (found.kind, found.certainty) == (CauseKind.LATE_ROWS, Certainty.CERTAIN)
    assert found.evidence == ("task 0: 7 late rows", "task 0: up/1/3 said nothing")
    # It would also end the wait for silent producers.
    assert "PENSTOCK_LATE_ALERT_ROWS" in found.advice
    assert "drop_late" not in found.advice
    *_, last = causes_of(facts([task(progress=BUSY | {"input_problems": problems})]))
    assert (last.kind, last.certainty) == (CauseKind.LATE_ROWS, Certainty.POSSIBLE)
    (alone,) = causes_of(facts([task()], alerts=[alert("late_rows")]))
    assert alone.evidence == ("late_rows etl",)
