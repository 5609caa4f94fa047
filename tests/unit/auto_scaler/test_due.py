"""Healthy jobs are due at times that are spread over the minutes, each once in each span."""

from __future__ import annotations

from datetime import timedelta

from services.auto_scaler.due import DueJobs
from tests.support.auto_scaler import NOW

JOBS = [f"job-{number}" for number in range(100)]


def test_each_job_is_due_once_in_ten_minutes_and_not_all_at_once() -> None:
    due, taken = DueJobs(10), []
    for minute in range(21):
        now = NOW + timedelta(minutes=minute)
        taken.append([job for job in JOBS if due.take(job, now)])
    assert taken[0] == [], "a new process reads nothing of all jobs at once"
    assert sorted(job for minute in taken[1:11] for job in minute) == sorted(JOBS)
    assert sorted(job for minute in taken[11:21] for job in minute) == sorted(JOBS)
    assert max(map(len, taken)) < 30


def test_a_round_that_comes_late_misses_no_job() -> None:
    due = DueJobs(10)
    assert not due.take("j", NOW)
    assert due.take("j", NOW + timedelta(minutes=25))
    assert not due.take("j", NOW + timedelta(minutes=25))


def test_without_a_span_every_job_is_always_due() -> None:
    due = DueJobs(0)
    assert due.take("j", NOW)
    assert due.take("j", NOW)


def test_a_job_that_is_gone_is_forgotten() -> None:
    due = DueJobs(10)
    due.take("j", NOW)
    due.keep_only(set())
    assert not due.take("j", NOW + timedelta(minutes=25))
