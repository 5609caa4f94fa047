"""Which jobs use a package: also those that are about to leave it, or that a plan brings to it. A deletion and a write
exclude each other."""

from __future__ import annotations

import json
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import text

from penstock.control.errors import Conflict, Forbidden
from penstock.store.engine import transaction
from penstock.wire.job_client import JobClient
from penstock.wire.jobs import BatchAction, BatchWrite
from services.job_service.store import packages
from tests.support.job_service.service import CONFIG, RunningJobService
from tests.support.job_service.stored import commit, execute, sync
from tests.support.store.database import wait_for_lock_waiters

OTHER = {**CONFIG, "labels": {"a": "b"}}


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


def test_a_package_is_used_while_a_layer_names_it_or_a_job_may_go_back_to_it(
    service: RunningJobService, client: JobClient
) -> None:
    """1. The base layer names version 1, and an override hides it. 2. Version 3 was rejected: version 2 was good."""
    client.put_job("etl", {**CONFIG, **of_version("1")})
    version = client.put_layer("etl", "oncall", {"package": {"version": "4"}}, if_match=0).version
    assert (users(client, "1"), users(client, "4"), users(client, "2")) == (["etl"], ["etl"], [])
    with pytest.raises(Conflict, match=r"rules 1 is the package of etl \(layer base\)") as refused:
        client.delete_package("rules", "1")
    with pytest.raises(Conflict, match=r"rules 4 is the package of etl \(what is to run, layers base and oncall\)"):
        client.delete_package("rules", "4")
    assert refused.value.rule == "unused"
    sync(service, "failed", 1)
    leaf = {"path": ["package", "version"], "old": "2", "new": "3"}
    rejected = {"revision": 1, "leaves": [leaf], "wave": 1, "waves": 2, "task": None, "error": "no"}
    execute(service, "UPDATE sync_state SET rejected = CAST(:rejected AS jsonb)", rejected=json.dumps(rejected))
    with pytest.raises(Conflict, match=r"rules 2 is the package of etl \(what it may be rolled back to\)"):
        client.delete_package("rules", "2")
    assert version is not None
    client.put_layer("etl", "oncall", {"package": {"name": "flights", "version": "4"}}, if_match=version)
    assert (users(client, "1"), users(client, "4"), users(client, "2")) == (["etl"], [], ["etl"])
    assert [job.job for job in client.list_jobs(package="flights/1")] == []
    client.delete_package("rules", "5")
    with pytest.raises(Forbidden), service.client(client.create_token("eye", "reader")) as reader:
        reader.delete_package("rules", "5")


def test_a_write_that_began_before_its_package_was_deleted_is_refused(
    service: RunningJobService, client: JobClient
) -> None:
    """1. The write waits for its job, which another writer holds. 2. The package is deleted: nobody has it yet. 3. The
    write goes on. A write that begins later is told by Spark whether the file is there."""
    client.put_job("etl", CONFIG)
    config = {**CONFIG, **of_version("1")}
    with ThreadPoolExecutor(1) as pool:
        with transaction(service.engine) as other:
            other.execute(text("SELECT FROM jobs FOR UPDATE"))
            write = pool.submit(client.put_job, "etl", config)
            wait_for_lock_waiters(service.engine, 1)
            with service.client() as second:
                second.delete_package("rules", "1")
        with pytest.raises(Conflict, match="rules 1 was deleted after this call began") as refused:
            write.result()
    assert (refused.value.field, refused.value.rule) == ("package.version", "package_deleted")
    assert client.get_job("etl").config["package"]["name"] == "builtin"
    client.put_job("etl", config)


def test_a_write_that_waits_for_the_deletion_of_its_package_is_refused(
    service: RunningJobService, client: JobClient
) -> None:
    """1. A deletion looks for users. 2. The write waits for it. 3. The deletion found none, and is done."""
    client.put_job("etl", CONFIG)
    with ThreadPoolExecutor(1) as pool:
        with transaction(service.engine) as other:
            packages.delete(other, "rules", "2")
            write = pool.submit(client.put_job, "etl", {**CONFIG, **of_version("1")})
            wait_for_lock_waiters(service.engine, 1)
            packages.delete(other, "rules", "1")
        with pytest.raises(Conflict, match="rules 1 was deleted after this call began"):
            write.result()


def test_a_deletion_waits_for_the_write_that_takes_the_package(service: RunningJobService, client: JobClient) -> None:
    """1. The write is past its checks, and waits for its revision. 2. So the deletion waits. 3. The write is done."""
    client.put_job("etl", CONFIG)
    with service.client() as second, ThreadPoolExecutor(2) as pool:
        with transaction(service.engine) as other:
            other.execute(text("SELECT FROM counters FOR UPDATE"))
            write = pool.submit(client.put_job, "etl", {**CONFIG, **of_version("1")})
            wait_for_lock_waiters(service.engine, 1)
            deletion = pool.submit(second.delete_package, "rules", "1")
            wait_for_lock_waiters(service.engine, 2)
        write.result()
        with pytest.raises(Conflict, match="rules 1 is the package of etl"):
            deletion.result()


CHANGES = {
    "runs": "UPDATE running SET commit_number = commit_number + 1, config = CAST(:config AS jsonb)",
    "plan": "UPDATE sync_state SET plan = jsonb_build_object('kind', 'rollout', 'config', CAST(:config AS jsonb))",
    "rejected": "UPDATE sync_state SET rejected = jsonb_build_object('leaves', jsonb_build_array("
    "jsonb_build_object('path', jsonb_build_array('package', 'name'),"
    " 'old', CAST(:config AS jsonb)->'package'->'name'),"
    " jsonb_build_object('path', jsonb_build_array('package', 'version'), 'old', '1')))",
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_after_the_look_at_all_jobs_is_seen(
    service: RunningJobService, client: JobClient, change: str
) -> None:
    """1. A deletion has found no user, and waits for a write. 2. Without a write a job comes to need the package."""
    revision = client.put_job("etl", CONFIG).revision
    commit(service, of_version("0"), revision)
    sync(service, "synced", revision)
    with service.client() as second, ThreadPoolExecutor(1) as pool:
        with transaction(service.engine) as other:
            packages.share(other)
            deletion = pool.submit(second.delete_package, "rules", "1")
            wait_for_lock_waiters(service.engine, 1)
            execute(service, CHANGES[change], **({"config": json.dumps(of_version("1"))}))
        with pytest.raises(Conflict, match="rules 1 is the package of etl"):
            deletion.result()


def test_a_deletion_does_not_wait_for_long_and_leaves_no_trace(
    service: RunningJobService, client: JobClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. A write goes on and on. 2. One that begins later is not held up."""
    monkeypatch.setattr(packages, "_LIMIT", text("SET LOCAL lock_timeout = '10ms'"))
    with transaction(service.engine) as other:
        packages.share(other)
        with pytest.raises(Conflict, match="rules 1 is not deleted: writes of jobs were under way") as refused:
            client.delete_package("rules", "1")
        assert refused.value.rule == "writes_under_way"
        client.put_job("etl", {**CONFIG, **of_version("1")})


def test_so_many_deletions_are_remembered(
    service: RunningJobService, client: JobClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages, "MOST_DELETIONS", 2)
    for version in ("1", "2", "1"):
        client.delete_package("rules", version)
    with pytest.raises(Conflict, match="2 versions were deleted in the last hour") as refused:
        client.delete_package("rules", "3")
    assert refused.value.rule == "most_deletions"
    execute(service, "UPDATE package_deletions SET deleted_at = deleted_at - interval '61 minutes' WHERE version = '1'")
    client.delete_package("rules", "3")


@pytest.mark.parametrize("call", ["restore", "batch"])
def test_a_call_that_waits_for_a_deletion_holds_no_counter(
    service: RunningJobService, client: JobClient, call: str
) -> None:
    """Also one that writes twice. The counter comes last: all other writes would wait for the deletion, too."""
    client.put_job("etl", CONFIG)
    execute(
        service,
        "INSERT INTO savepoints (job, name, state, generation, revision, config, author) SELECT 'etl', 'nightly',"
        " 'ready', 1, 1, config || CAST(:package AS jsonb), 'ann' FROM expected_configs",
        package=json.dumps(of_version("1")),
    )
    writes = [
        BatchWrite(action=BatchAction.PUT_JOB, job="etl", config=each)
        for each in (OTHER, {**CONFIG, **of_version("1")})
    ]
    with ThreadPoolExecutor(1) as pool:
        with transaction(service.engine) as other:
            packages.delete(other, "rules", "2")
            if call == "restore":
                done: Future[Any] = pool.submit(client.restore, "etl", "nightly", task_count=1)
            else:
                done = pool.submit(client.batch, writes)
            wait_for_lock_waiters(service.engine, 1)
            free = other.execute(text("SELECT value FROM counters WHERE name = 'revision' FOR UPDATE SKIP LOCKED"))
            assert free.rowcount == 1
        done.result()
