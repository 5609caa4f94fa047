"""What an on-call engineer does at night: watch a change, edit a layer, compare a folder of jobs, read a task's log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from penstock.model.reports import TaskProgress, TaskReport, TaskReportBatch, TaskState
from penstock.store.cluster import ask_for_shards
from penstock.store.engine import transaction
from penstock.tasks.ownership import Member
from services.shard_manager.store.members import register
from services.shard_manager.store.owners import Change, ensure_shards, read_owners, record_owners
from services.task_service.store.reports import save_report
from tests.support.cli.shell import Shell, lone
from tests.support.job_service.service import CONFIG, RunningJobService, as_new, standing_job_service
from tests.support.store.running import commit_job


@pytest.fixture(scope="module")
def standing(postgres_url: str, template_database: str) -> Iterator[RunningJobService]:
    with standing_job_service(postgres_url, template_database) as running:
        yield running


@pytest.fixture
def service(standing: RunningJobService) -> RunningJobService:
    return as_new(standing)


@pytest.fixture
def shell(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, service: RunningJobService
) -> Iterator[Shell]:
    """A shell of the service's admin, with a job `etl`."""
    with lone(monkeypatch, capsys, tmp_path) as made:
        monkeypatch.setenv("PENSTOCK_URL", service.url)
        monkeypatch.setenv("PENSTOCK_TOKEN", service.admin)
        made("jobs", "apply", "etl", json.dumps(CONFIG), "--reason", "first release").ok()
        yield made


def _run_its_task(service: RunningJobService) -> None:
    """The only task of `etl` runs in `tm-1` and has finished a batch."""
    commit_job(service.engine, "etl", task_count=1)
    progress = TaskProgress(batch_id=1, backlog_records=0)
    report = TaskReport(
        job="etl", index=0, revision=1, generation=1, restarts=0, epoch=1, state=TaskState.RUNNING, progress=progress
    )
    batch = TaskReportBatch(container="tm-1", incarnation="life", commit_number=1, version=1, tasks=(report,))
    with transaction(service.engine) as connection:
        ask_for_shards(connection, 1)
        ensure_shards(connection, 1)
        register(connection, Member("tm-1", "life", "http://127.0.0.1:7100", "local", 2.0, 2**32, 2**34), empty=True)
        save_report(connection, batch)
        record_owners(connection, {0: Change("tm-1", read_owners(connection)[0].epoch)})


def test_a_change_is_watched_until_it_runs(shell: Shell, service: RunningJobService) -> None:
    """1. Nothing runs it: exit code 3. 2. All tasks run it. 3. The State Syncer gave a later one up: exit code 1."""
    late = shell("watch", "etl", "--timeout", "1s")
    assert late.code == 3
    assert "etl is pending; `penstock sync etl`" in late.err
    assert "was written by admin" in late.out
    assert ": first release" in late.out

    _run_its_task(service)
    lines = [line.split(" s  ")[1] for line in shell("watch", "etl").ok().splitlines()]
    assert lines[1:] == [
        "the State Syncer has committed revision 1 as generation 1",
        "1 of 1 tasks run revision 1",
        "etl runs revision 1: 1 task, there are no rows to read yet",
    ]

    shell("override", "etl", "task_count=2", "--reason", "more").ok()
    with transaction(service.engine) as connection:
        connection.execute(
            text("INSERT INTO sync_state (job, revision, state, detail) VALUES ('etl', 1000000, 'failed', 'no room')")
        )
    assert "etl is failed: no room" in shell("watch", "etl").refusal()
    assert "NotFound" in shell("watch", "other").refusal()
