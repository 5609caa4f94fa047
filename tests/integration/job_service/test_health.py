"""The health of jobs over HTTP: in lists, as a filter, and what tasks show."""

from __future__ import annotations

from penstock.model.health import Health
from penstock.model.reports import TaskProgress
from penstock.store.engine import snapshot
from penstock.wire.job_client import JobClient
from services.job_service.store.jobs import page as jobs_page
from tests.support.cli.shell import Shell
from tests.support.job_service.service import CONFIG, RunningJobService
from tests.support.job_service.stored import commit, execute, report


def test_a_crashing_job_is_found_and_tells_why_and_recovers(service: RunningJobService, client: JobClient) -> None:
    """1. It crashed three times: not converged, found by its health, the reason whole or in a line. 2. A newer revision
    runs: healthy, and its old error is not shown any more."""
    for name in ("etl", "fine", "other"):
        revision = client.put_job(name, CONFIG).revision
    commit(service, {"task_count": 1}, revision)
    report(service, 0, revision)
    execute(
        service, "UPDATE tasks SET state = 'crashed', crashes = 3, error = :error", error="ValueError: 3\n  at x.py:3"
    )
    execute(
        service,
        "INSERT INTO task_crashes (job, index, crashed_at, newest_at, revision, error)"
        " SELECT 'etl', 0, ARRAY[now(), now(), now()], now(), revision, error FROM tasks",
    )
    (found,) = client.list_jobs(health=Health.CRASHING, page_size=1)
    assert (found.job, found.health, found.converged) == ("etl", Health.CRASHING, False)
    assert found.reason == "task 0: crashes again and again: ValueError: 3"
    assert client.get_job("etl").reason == "task 0: crashes again and again: ValueError: 3\n  at x.py:3"
    assert client.tasks("etl").tasks[0].error == "ValueError: 3\n  at x.py:3"
    assert [job.job for job in client.list_jobs(health=Health.STARTING)] == ["fine", "other"]
    execute(service, "UPDATE task_crashes SET revision = 0")
    execute(
        service,
        "UPDATE tasks SET state = 'running', crashes = 1, progress = CAST(:progress AS jsonb)",
        progress='{"batch_id": 4, "backlog_records": 0}',
    )
    assert (client.get_job("etl").health, client.get_job("etl").converged) == (Health.HEALTHY, True)
    assert client.tasks("etl").tasks[0].error is None


def test_a_page_of_one_health_reads_a_bounded_number_of_jobs(service: RunningJobService, client: JobClient) -> None:
    for number in range(7):
        client.put_job(f"etl-{number}", CONFIG)
    with snapshot(service.engine) as connection:
        none_yet = jobs_page(connection, limit=5, health=Health.LAGGING, most_read=3)
        some = jobs_page(connection, limit=2, health=Health.STARTING, after="etl-3", most_read=3)
        all_of_them = jobs_page(connection, limit=9, health=Health.STARTING, most_read=8)
    assert (list(none_yet.jobs), none_yet.last) == ([], "etl-2")
    assert ([job.job for job in some.jobs], some.last) == (["etl-4", "etl-5"], "etl-5")
    assert (len(all_of_them.jobs), all_of_them.last) == (7, None)


def test_tasks_of_a_silent_container_are_lost_while_others_report(
    service: RunningJobService, client: JobClient
) -> None:
    """1. Its container says nothing any more, and others do. 2. Nobody does: it is unknown. 3. It reports again."""
    revision = client.put_job("etl", CONFIG).revision
    commit(service, {"task_count": 1}, revision)
    report(service, 0, revision)
    execute(
        service,
        "INSERT INTO reports (container, incarnation, commit_number, version, reported_at)"
        " VALUES ('c0', 'i', 1, 1, now() - interval '12 seconds'), ('c1', 'i', 1, 1, now())",
    )
    (lost,) = client.tasks("etl").tasks
    assert lost.state == "lost"
    assert (lost.error or "").startswith("its container c0 is lost: nothing was heard of it since ")
    assert lost.reported_at is not None
    assert (client.get_job("etl").health, client.get_job("etl").converged) == (Health.UNKNOWN, False)
    execute(service, "DELETE FROM reports WHERE container = 'c1'")
    assert client.tasks("etl").tasks[0].state == "unknown"
    execute(service, "UPDATE reports SET reported_at = now()")
    assert client.tasks("etl").tasks[0].state == "running"


def test_a_task_of_a_silent_host_is_unknown(service: RunningJobService, client: JobClient) -> None:
    """Its container reports all the time, and that nothing is heard of its Spark host."""
    revision = client.put_job("etl", CONFIG).revision
    commit(service, {"task_count": 1}, revision)
    report(service, 0, revision)
    silent = TaskProgress(batch_id=4, silent_seconds=12.3).model_dump_json()
    execute(service, "UPDATE tasks SET progress = CAST(:progress AS jsonb)", progress=silent)
    (found,) = client.tasks("etl").tasks
    assert (found.state, found.error) == ("unknown", "its Spark host has said nothing for 12 s")
    job = client.get_job("etl")
    assert (job.health, job.reason, job.converged) == (Health.UNKNOWN, f"task 0: {found.error}", False)


def test_a_task_whose_last_windows_wait_for_rows_is_named(
    service: RunningJobService, client: JobClient, shell: Shell
) -> None:
    """Of two tasks that have read all, one is an hour behind in event time, and keeps state."""
    revision = client.put_job("etl", CONFIG).revision
    commit(service, {"task_count": 2}, revision)
    for index, hour in enumerate((12, 11)):
        report(service, index, revision)
        execute(
            service,
            "UPDATE tasks SET progress = CAST(:progress AS jsonb) WHERE index = :index",
            progress=f'{{"backlog_records": 0, "state_rows": 1, "watermark": "2024-01-01T{hour}:00:00.000Z"}}',
            index=index,
        )
    assert [task.watermark_behind_seconds for task in client.tasks("etl").tasks] == [None, 3600.0]
    assert "etl/1: all rows are read, and the watermark is up to 3,600 s behind" in shell("tasks", "etl").ok()
