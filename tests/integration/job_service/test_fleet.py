"""All jobs at once: who calls, how many are well, what changed lately."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from sqlalchemy import text
from structlog.testing import capture_logs

from penstock.control.errors import InvalidConfig, Unavailable
from penstock.control.process import wait_until
from penstock.model.health import Health
from penstock.model.jobs import JobState
from penstock.model.states import JobSort
from penstock.store.engine import transaction
from penstock.wire.fleet import FleetView
from penstock.wire.job_client import JobClient
from services.job_service import census
from services.job_service.store.fleet_counts import FleetCounts, count_fleet
from tests.support.control.clock import FakeClock
from tests.support.job_service.service import CONFIG, RunningJobService
from tests.support.state_syncer.cell import Cell


def test_a_token_learns_what_it_may_do(service: RunningJobService, client: JobClient) -> None:
    token = client.create_token("ann", "oncall", expires_in_seconds=3600)
    with service.client(token) as hers:
        assert hers.caller().model_dump() == {"name": "ann", "role": "oncall", "layers": ["oncall", "rollback"]}
    assert client.caller().layers == ["*"]


def test_the_newest_changes_of_all_jobs_come_first(client: JobClient) -> None:
    for job in ("a", "b"):
        client.put_job(job, CONFIG, reason=f"make {job}", verify=False)
    client.put_layer("a", "oncall", {"priority": 1}, if_match=0, verify=False)
    found = client.changes()
    assert [(entry.job, entry.action) for entry in found.entries] == [("a", "put"), ("b", "create"), ("a", "create")]
    first = client.changes(limit=2)
    assert [entry.job for entry in client.changes(limit=2, cursor=first.next).entries] == ["a"]


def test_a_count_has_all_jobs_and_the_worst_of_them(service: RunningJobService) -> None:
    _fill(service, 1200)
    counts = census.Census(service.engine, FakeClock())
    found = _complete(counts)
    assert (found.jobs, found.health) == (1201, {Health.STARTING: 1200, Health.QUARANTINED: 1})
    assert found.states == {JobState.PENDING: 1200, JobState.QUARANTINED: 1}
    assert (found.worst[0].job, len(found.worst)) == ("job-0500", census.MOST_WORST)
    assert [job.job for job in found.worst[1:3]] == ["job-0000", "job-0001"]


def test_all_jobs_are_sorted_and_read_page_by_page(service: RunningJobService, client: JobClient) -> None:
    """By the count, with the figures of now: what was deleted since is left out. The store knows who uses a topic."""
    _fill(service, 1200)
    wait_until(lambda: client.fleet().complete, 60, "the count")
    first = client.sorted_jobs(JobSort.HEALTH, limit=3)
    assert (first.jobs[0].job, first.jobs[0].health) == ("job-0500", Health.QUARANTINED)
    assert (first.matching, first.complete, len(first.jobs)) == (1201, True, 3)
    second = client.sorted_jobs(JobSort.HEALTH, limit=3, cursor=first.next)
    assert [job.job for job in second.jobs] == ["job-0002", "job-0003", "job-0004"]
    with transaction(service.engine) as connection:
        connection.execute(text("DELETE FROM jobs WHERE name = 'job-0003'"))
    again = client.sorted_jobs(JobSort.HEALTH, limit=3, cursor=first.next)
    assert [job.job for job in again.jobs] == ["job-0002", "job-0004"]
    assert client.sorted_jobs(JobSort.JOB, topic="nothing").jobs == []
    assert client.sorted_jobs(JobSort.JOB, reverse=True, limit=1, prefix="job-00").jobs[0].job == "job-0099"
    with pytest.raises(InvalidConfig, match="no cursor"):
        client.sorted_jobs(JobSort.LAG, cursor=first.next)
    with pytest.raises(InvalidConfig, match="no cursor"):
        client.sorted_jobs(JobSort.LAG, cursor=client.jobs_page(limit=1).next)


def test_a_count_is_remembered_until_its_rest_is_over(service: RunningJobService) -> None:
    clock = FakeClock()
    counts = census.Census(service.engine, clock)
    assert _complete(counts).jobs == 0
    _fill(service, 3)
    assert counts.count().jobs == 0
    clock.seconds += census.LEAST_REST_SECONDS
    wait_until(lambda: counts.count().jobs == 4, 20, "the next count")


def test_a_count_that_failed_is_told_until_the_next_one_succeeds(
    service: RunningJobService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also to who asks when it has ended, and although an earlier one succeeded. It rests longer after each failure."""
    clock = FakeClock()
    counts = census.Census(service.engine, clock)
    assert _complete(counts).jobs == 0
    with monkeypatch.context() as broken, capture_logs() as logged:
        broken.setattr(census.jobs, "page", _no_answer)
        clock.seconds += census.rest_seconds(0.0, 0)
        for failures in range(1, 4):
            wait_until(partial(_has_failed, counts, logged, failures), 20, "the failure")
            clock.seconds += census.rest_seconds(0.0, failures) - 0.1
            assert _fails(counts)
            assert len(logged) == failures
            clock.seconds += 0.2
        assert {each["event"] for each in logged} == {"the jobs were not counted"}
    wait_until(lambda: not _fails(counts), 20, "the next count")
    assert counts.count().complete


def test_everybody_with_a_token_may_ask(service: RunningJobService, client: JobClient) -> None:
    token = client.create_token("bob", "reader", expires_in_seconds=3600)
    with service.client(token) as reader:
        assert reader.fleet().at
        assert reader.changes().entries == []


def _no_answer(*_: object, **__: object) -> None:
    raise Unavailable("the store does not answer")


def _has_failed(counts: census.Census, logged: list[Any], failures: int) -> bool:
    return _fails(counts) and len(logged) == failures


def _fails(counts: census.Census) -> bool:
    try:
        counts.count()
    except Unavailable:
        return True
    return False


def _complete(counts: census.Census) -> FleetView:
    wait_until(lambda: counts.count().complete, 20, "the count")
    return counts.count()


def _fill(service: RunningJobService, jobs: int) -> None:
    with transaction(service.engine) as connection:
        connection.execute(
            text(
                "INSERT INTO jobs (name, owner, revision) SELECT 'job-' || lpad(n::text, 4, '0'), 'ann', n + 1"
                " FROM generate_series(0, :jobs) AS n"
            ),
            {"jobs": jobs},
        )
        connection.execute(
            text("INSERT INTO sync_state (job, state, revision) VALUES ('job-0500', 'quarantined', 501)")
            if jobs > 500
            else text("SELECT 1")
        )


def test_tasks_and_changes_are_counted(service: RunningJobService, client: JobClient, cell: Cell) -> None:
    """1. No job: nothing, and no age. 2. A job of three tasks: one runs, one crashed, one is not reported. 3. A write
    that nobody has committed is ten minutes old. 4. Its container says nothing: all are unknown."""
    assert _counted(service) == FleetCounts(0, 0, 0, 0.0, 0.0, 0.0, 0)
    client.put_job("etl", CONFIG | {"task_count": 3}, verify=False)
    client.put_job(
        "idle", CONFIG | {"desired_state": "stopped", "output": {"type": "kafka", "topic": "idle"}}, verify=False
    )
    cell.round()
    cell.report("a", 9, "etl")
    cell.do(
        "INSERT INTO tasks (job, index, container, state, revision, generation, restarts, epoch)"
        " VALUES ('etl', 1, 'a', 'crashed', 1, 1, 0, 1)"
    )
    cell.do("UPDATE running SET committed_at = now() - interval '4 minutes'")
    assert _counted(service)._replace(age_seconds=0.0) == FleetCounts(3, 1, 1, 0.0, 0.0, 0.0, 0)
    client.put_layer("etl", "oncall", {"priority": 1}, if_match=0, verify=False)
    cell.do("UPDATE tasks SET revision = 1")
    with transaction(service.engine) as connection:
        connection.execute(text("SET LOCAL session_replication_role = replica"))
        connection.execute(text("UPDATE history SET at = now() - interval '10 minutes' WHERE layer = 'oncall'"))
    found = _counted(service)
    assert (found.jobs_behind, found.age_p50_seconds) == (1, 0.0)
    assert 600 <= found.age_p99_seconds == found.age_seconds < 700
    cell.do("UPDATE reports SET reported_at = now() - interval '1 minute'")
    assert _counted(service)[:3] == (3, 0, 0)


def _counted(service: RunningJobService) -> FleetCounts:
    with transaction(service.engine) as connection:
        return count_fleet(connection)
