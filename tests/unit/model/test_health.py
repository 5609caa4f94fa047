"""The health of a job: tables of facts and what is decided from them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock.model.health import Health, Heard, JobFacts, Moment, TaskFacts, crashes_again, heard, verdict
from penstock.model.jobs import JobState
from penstock.model.states import FAILED_BEFORE

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MOMENT = Moment(NOW, NOW)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def job(**changes: Any) -> JobFacts:
    facts: dict[str, Any] = {
        "job": "etl",
        "owner": "",
        "state": JobState.SYNCED,
        "revision": 7,
        "restarts": 0,
        "running_revision": 7,
        "generation": 1,
        "committed_at": ago(3600),
        "mixed": False,
        "stopping": False,
        "wants_tasks": True,
        "task_count": 1,
        "max_lag_seconds": 90.0,
        "detail": "",
    }
    return JobFacts(**(facts | changes))


def task(index: int = 0, **changes: Any) -> TaskFacts:
    facts: dict[str, Any] = {
        "job": "etl",
        "index": index,
        "container": "c",
        "state": "running",
        "revision": 7,
        "generation": 1,
        "epoch": 1,
        "crashes": 0,
        "error": None,
        "reported_at": ago(1),
        "alive_at": ago(5),
        "failed_over": False,
        "batch_id": 3,
        "backlog_records": 0,
        "processed_rows_per_second": 10.0,
    }
    return TaskFacts(**(facts | changes))


def crashed(*seconds_ago: float, revision: int = 7) -> dict[str, Any]:
    times = [ago(seconds) for seconds in seconds_ago]
    return {"crashed_at": times, "crash_revision": revision, "crash_error": "ValueError: 3 is no delay"}


WAITING = {"state": "crashed", "batch_id": None, "backlog_records": None, "error": "ValueError: 3 is no delay"}
UNMEASURED = "task 0: runs, and how far it is behind is unknown"
FAILED_OVER = (
    "its container c is lost, and the one that takes over has not reported it yet: a Spark host may have to start "
    "there first"
)
SILENT_SINCE = (
    f"its container c is lost: nothing was heard of it since {ago(13):%H:%M:%S} UTC. Another one takes over once it "
    "has been silent for the fail-over time (60 s by default)"
)
OF_ONE_TASK = [
    ({}, Health.HEALTHY, ""),
    ({"state": "starting", "batch_id": None}, Health.STARTING, "task 0: is starting"),
    ({"batch_id": None}, Health.STARTING, "task 0: has not finished a batch since its start"),
    (WAITING | {"crashes": 1}, Health.STARTING, "task 0: crashed, and will start again: ValueError"),
    (
        {"batch_id": None, "crashes": 1, "error": "x"},
        Health.STARTING,
        "task 0: has not finished a batch since its start; it",
    ),
    (WAITING | {"crashes": 3}, Health.CRASHING, "task 0: crashes again and again: ValueError: 3 is no delay"),
    ({"batch_id": None, "crashes": 3, "error": "no disk"}, Health.CRASHING, "task 0: crashes again and again: no disk"),
    (crashed(170, 90, 10), Health.CRASHING, "task 0: crashes again and again: ValueError: 3 is no delay"),
    (crashed(330, 250, 170), Health.HEALTHY, ""),
    (crashed(170, 90, 10, revision=6), Health.HEALTHY, ""),
    (crashed(170, 90, 10, revision=6) | {"crash_run": "x"}, Health.HEALTHY, ""),
    (crashed(170, 90, 10, revision=6) | {"crash_run": "x", "run": "x"}, Health.CRASHING, "task 0: crashes again"),
    (crashed(170, 90, 10, revision=6) | {"crash_run": "x", "run": "y"}, Health.HEALTHY, ""),
    ({"backlog_records": 910}, Health.LAGGING, "task 0: is 91 s behind; its SLO is 90 s"),
    ({"backlog_records": 890}, Health.HEALTHY, ""),
    ({"batch_id": None, "backlog_records": None, "oldest_unread_seconds": 200.0}, Health.LAGGING, "task 0: is 200 s"),
    ({"backlog_records": None}, Health.UNKNOWN, f"{UNMEASURED}: it has not told"),
    ({"backlog_records": 5, "processed_rows_per_second": 0.0}, Health.UNKNOWN, f"{UNMEASURED}: rows wait, and it has"),
    ({"backlog_records": None, "oldest_unread_seconds": 5.0}, Health.UNKNOWN, "task 0: runs, and how far"),
    (
        {"backlog_records": 9, "processed_rows_per_second": None, "oldest_unread_at_most_seconds": 5.0},
        Health.HEALTHY,
        "",
    ),
    (
        {"backlog_records": 9, "processed_rows_per_second": None, "oldest_unread_at_most_seconds": 91.0},
        Health.UNKNOWN,
        f"{UNMEASURED} yet: rows wait, and no batch",
    ),
    ({"backlog_records": 9_000, "oldest_unread_at_most_seconds": 89.0}, Health.HEALTHY, ""),
    ({"backlog_records": 9_000, "oldest_unread_at_most_seconds": 95.0}, Health.LAGGING, "task 0: is 95 s behind"),
    ({"silent_seconds": 12.0}, Health.UNKNOWN, "task 0: its Spark host has said nothing for 12 s"),
    ({"silent_seconds": 12.0, "batch_id": None}, Health.UNKNOWN, "task 0: its Spark host has said nothing for 12 s"),
    ({"state": "held", "error": "its region is eu"}, Health.HELD, "task 0: its region is eu"),
    ({"unreadable_input": "there is no topic t"}, Health.HELD, "task 0: cannot read on: there is no topic t"),
    ({"unreadable_input": "no topic", "backlog_records": 9_000}, Health.HELD, "task 0: cannot read on: no topic"),
    ({"unreadable_input": "no topic", "batch_id": None}, Health.HELD, "task 0: cannot read on: no topic"),
    (WAITING | {"crashes": 1, "unreadable_input": "x"}, Health.STARTING, "task 0: crashed, and will start again"),
    ({"held_back_by": "a/0/1", "held_back_seconds": 61.0}, Health.HELD, "task 0: waits for a/0/1, which writes"),
    ({"held_back_by": "a/0/1", "held_back_seconds": 2.0}, Health.HEALTHY, ""),
    ({"late_rows": "7 late rows were dropped"}, Health.HEALTHY, "task 0: 7 late rows were dropped"),
    ({"late_rows": "7 late rows", "backlog_records": 910}, Health.LAGGING, "task 0: is 91 s behind"),
    ({"reported_at": ago(13), "alive_at": ago(14)}, Health.UNKNOWN, f"task 0: {SILENT_SINCE}"),
    ({"reported_at": ago(30), "alive_at": ago(2)}, Health.UNKNOWN, "task 0: reports of its container c do not arrive"),
    ({"failed_over": True}, Health.UNKNOWN, f"task 0: {FAILED_OVER}"),
    ({"state": "starting"}, Health.STARTING, "task 0: is starting: its Spark host begins the query and loads"),
]


@pytest.mark.parametrize(("facts", "health", "reason"), OF_ONE_TASK)
def test_the_health_of_a_job_with_one_task(facts: dict[str, Any], health: Health, reason: str) -> None:
    found = verdict(job(), [task(**facts)], MOMENT)
    assert found.health is health
    assert found.reason.startswith(reason)
    assert bool(found.reason) == bool(reason)


OF_THE_JOB = [
    ({"state": JobState.DELETING}, Health.STOPPED, "the job is being deleted"),
    ({"state": JobState.STOPPED, "wants_tasks": False}, Health.STOPPED, ""),
    ({"state": JobState.RESCALING, "stopping": True, "detail": "seals"}, Health.STARTING, "its tasks are stopped"),
    ({"state": JobState.QUARANTINED, "detail": "failed 5 times"}, Health.QUARANTINED, "failed 5 times"),
    ({"state": JobState.FAILED, "detail": "no such field"}, Health.HEALTHY, ""),
    ({"state": JobState.PENDING, "wants_tasks": None}, Health.STARTING, "the State Syncer has not committed"),
    ({"state": JobState.FAILED, "wants_tasks": None, "detail": "no bus"}, Health.HELD, "no bus"),
    (
        {"state": JobState.WAITING, "wants_tasks": None, "failures": 2, "detail": f"c asks{FAILED_BEFORE}no bus"},
        Health.HELD,
        "its first configuration failed 2 times, and is tried again now: no bus",
    ),
    (
        {"state": JobState.WAITING, "wants_tasks": None, "failures": 1, "detail": "c asks"},
        Health.HELD,
        "its first configuration failed once, and is tried again now: no reason is known",
    ),
    ({"task_count": 2}, Health.UNKNOWN, "task 1: is reported by no container"),
    (
        {"task_count": 2, "committed_at": ago(20)},
        Health.STARTING,
        f"task 1: waits for its start: committed at {ago(20):%H:%M:%S} UTC, and no container reports it yet",
    ),
    ({"task_count": 0}, Health.UNKNOWN, "its running configuration has no task"),
]


@pytest.mark.parametrize(("facts", "health", "reason"), OF_THE_JOB)
def test_the_health_of_a_job_with_a_healthy_task(facts: dict[str, Any], health: Health, reason: str) -> None:
    found = verdict(job(**facts), [task()], MOMENT)
    assert found.health is health
    assert found.reason.startswith(reason)


def test_the_gravest_task_speaks_for_the_job_and_others_like_it_are_counted() -> None:
    error = "ValueError: 3 is no delay\n  at rules.py:3"
    tasks = [
        task(0),
        *(task(index, **WAITING | {"crashes": 5, "error": error}) for index in (1, 2)),
        task(3, batch_id=None),
    ]
    found = verdict(job(task_count=4, state=JobState.QUARANTINED), tasks, MOMENT)
    assert found.health is Health.CRASHING
    assert found.reason == (
        "task 1: crashes again and again: ValueError: 3 is no delay (and 1 more task)\n  at rules.py:3"
    )
    assert set(found.reasons) == {Health.CRASHING, Health.HEALTHY, Health.STARTING, Health.QUARANTINED}


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ([{"backlog_records": 32_680}, {"backlog_records": 107_200}], "task 1: is 10,720 s behind"),
        ([{"backlog_records": 910}, {"backlog_records": 910}], "task 0: is 91 s behind"),
        (
            [WAITING | {"crashes": 4}, WAITING | {"crashes": 9, "error": "no disk"}],
            "task 1: crashes again and again: no",
        ),
        ([WAITING | {"crashes": 1}, WAITING | {"crashes": 2, "error": "no disk"}], "task 1: crashed, and will start"),
        (
            [{"held_back_by": "a/0/1", "held_back_seconds": seconds} for seconds in (61.0, 99.0)],
            "task 1: waits for a/0/1",
        ),
        (
            [{"held_back_by": "a/0/1", "held_back_seconds": 99.0}, {"state": "held", "error": "its region is eu"}],
            "task 1: its region is eu",
        ),
        ([{"backlog_records": None}, {"failed_over": True}], "task 1: its container c is lost"),
        ([{"failed_over": True}, {"failed_over": True, "reported_at": ago(50)}], "task 1: its container c is lost"),
    ],
)
def test_of_tasks_with_the_same_health_the_worst_tells_the_reason(facts: list[dict[str, Any]], reason: str) -> None:
    found = verdict(job(task_count=2), [task(index, **each) for index, each in enumerate(facts)], MOMENT)
    assert found.reason.startswith(reason)
    assert "(and 1 more task)" in found.reason


@pytest.mark.parametrize(("dropping", "others"), [(1, ""), (2, " (and 1 more task)")])
def test_of_healthy_tasks_those_that_drop_late_rows_tell_the_reason(dropping: int, others: str) -> None:
    late = [{} if index < 3 - dropping else {"late_rows": "7 late rows"} for index in range(3)]
    found = verdict(job(task_count=3), [task(index, **each) for index, each in enumerate(late)], MOMENT)
    assert (found.health, found.reason) == (Health.HEALTHY, f"task {3 - dropping}: 7 late rows{others}")


def test_of_two_reports_of_a_task_the_one_of_the_container_that_is_heard_counts() -> None:
    silent = task(container="old", epoch=9, reported_at=ago(60), alive_at=ago(60), state="crashed", crashes=1)
    assert verdict(job(), [silent, task(container="new")], MOMENT).health is Health.HEALTHY
    assert verdict(job(), [silent], MOMENT).health is Health.UNKNOWN


@pytest.mark.parametrize(
    ("facts", "heard_at", "expected"),
    [
        ({"reported_at": ago(12)}, ago(12), Heard.PRESENT),
        ({"reported_at": ago(13), "alive_at": ago(15)}, ago(1), Heard.LOST),
        ({"reported_at": ago(13), "alive_at": ago(6)}, ago(1), Heard.LOST),
        ({"reported_at": ago(20), "alive_at": ago(6)}, ago(1), Heard.UNKNOWN),
        ({"reported_at": ago(13), "alive_at": None}, ago(1), Heard.LOST),
        ({"reported_at": ago(13), "alive_at": ago(15)}, ago(13), Heard.UNKNOWN),
        ({"reported_at": ago(13), "alive_at": ago(15)}, None, Heard.UNKNOWN),
        ({"reported_at": ago(1), "failed_over": True}, ago(1), Heard.LOST),
    ],
)
def test_what_a_report_is_worth(facts: dict[str, Any], heard_at: datetime | None, expected: Heard) -> None:
    """A silent container is lost only while others report, and nothing else is heard of it."""
    assert heard(task(**facts), Moment(NOW, heard_at)) is expected


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (crashed(10), False),
        (crashed(90, 10), False),
        (crashed(170, 90, 10), True),
        (crashed(5000, 4000, 170, 90, 10), True),
        (crashed(3000, 90, 10), False),
        (crashed(62, 61, 61), False),
        (crashed(60, 59, 59), True),
        (crashed(1000, 900, 301) | {"state": "crashed", "batch_id": None}, True),
    ],
)
def test_what_crashing_again_and_again_is(facts: dict[str, Any], expected: bool) -> None:
    """Three crashes, each within 15 minutes of the one before, until it ran well twice as long as between them."""
    assert crashes_again(task(**facts), NOW) is expected


CONVERGED = [
    ({}, {}, True),
    ({"state": JobState.PENDING}, {}, False),
    ({"mixed": True}, {}, False),
    ({"task_count": 2}, {}, False),
    ({}, {"revision": 6}, False),
    ({}, {"generation": 2}, False),
    ({}, {"state": "starting"}, False),
    ({}, {"batch_id": None}, True),
    ({}, {"batch_id": None, "crashes": 1}, False),
    ({}, {"batch_id": 3, "crashes": 1}, True),
    ({}, {"reported_at": ago(13)}, False),
    ({}, {"failed_over": True}, False),
    ({}, {"silent_seconds": 12.0}, False),
    ({"state": JobState.STOPPED, "wants_tasks": False}, {}, False),
    ({"state": JobState.STOPPED, "wants_tasks": False}, {"reported_at": ago(13)}, False),
    ({"state": JobState.STOPPED, "wants_tasks": False}, {"failed_over": True}, True),
]


@pytest.mark.parametrize(("of_job", "of_task", "expected"), CONVERGED)
def test_converged(of_job: dict[str, Any], of_task: dict[str, Any], expected: bool) -> None:
    """A task that crashed does not count until it has finished a batch; nor does one of which nothing is known now."""
    assert verdict(job(**of_job), [task(**of_task)], MOMENT).converged is expected
