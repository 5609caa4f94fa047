"""Which jobs use a package: also those that are about to leave it, or that a plan brings to it."""

from __future__ import annotations

import json
from typing import Any

from penstock.wire.job_client import JobClient
from tests.support.job_service.service import CONFIG, RunningJobService
from tests.support.job_service.stored import commit, execute, sync


def of_version(version: str) -> dict[str, Any]:
    return {"package": {"name": "rules", "version": version}}


def users(client: JobClient, version: str) -> list[str]:
    return [job.job for job in client.list_jobs(package=f"rules/{version}")]


def test_a_package_is_used_until_no_task_runs_it_and_nothing_needs_it(
    service: RunningJobService, client: JobClient
) -> None:
    """1. A rollout: tasks of later waves run version 1. 2. It has ended: what it kept is of no account. 3. The plan of
    a rescale brings version 3, from a savepoint of version 4. 4. A restore of version 5 is asked for."""
    revision = client.put_job("etl", CONFIG).revision
    commit(service, of_version("2"), revision)
    rollout = {"revision": revision, "upgraded": 1, "before": {"config": of_version("1"), "revision": 1, "restarts": 0}}
    execute(service, "UPDATE running SET rollout = CAST(:rollout AS jsonb)", rollout=json.dumps(rollout))
    assert (users(client, "1"), users(client, "2"), users(client, "6")) == (["etl"], ["etl"], [])
    execute(service, "UPDATE running SET revision = revision + 1")
    assert users(client, "1") == []
    sync(service, "rescaling", revision)
    plan = {"config": of_version("3"), "restore": {"config": of_version("4")}}
    execute(service, "UPDATE sync_state SET plan = CAST(:plan AS jsonb)", plan=json.dumps(plan))
    assert (users(client, "3"), users(client, "4"), users(client, "5")) == (["etl"], ["etl"], [])
    execute(
        service,
        "INSERT INTO restores (job, savepoint, savepoint_job, savepoint_name, generation, config)"
        " VALUES ('etl', 1, 'etl', 'nightly', 1, CAST(:config AS jsonb))",
        config=json.dumps(of_version("5")),
    )
    assert users(client, "5") == ["etl"]
