"""What is told below a list of jobs."""

from __future__ import annotations

from typing import Any

from penstock.cli.job_list import reasons
from penstock.wire.job_views import JobSummary


def job(name: str, health: str, reason: str = "", **facts: Any) -> JobSummary:
    usual = {"owner": "me", "state": "synced", "revision": 5, "running_revision": 5, "restarts": 0, "converged": True}
    usual |= {"created_at": "2026-01-01T00:00:00Z", "generation": 1}
    return JobSummary.model_validate({"job": name, "health": health, "reason": reason, **usual, **facts})


def test_each_reason_is_told_and_who_stopped_jobs_can_be_asked() -> None:
    jobs = [job("a", "healthy"), job("b", "held", "no bus"), job("c", "stopped"), job("d", "stopped", "is deleted")]
    of_stopped = "`penstock why JOB` says for each by which layer, by whom and why"
    assert list(reasons(jobs)) == ["b: no bus", "d: is deleted", f"c is stopped: {of_stopped}"]
    assert list(reasons([*jobs, job("e", "stopped")]))[-1] == f"c, e are stopped: {of_stopped}"
    assert list(reasons(jobs[:1])) == []
