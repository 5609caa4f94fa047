"""Batches of operations: revert, restart, release, rescale, each as the single call does it."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import text

from penstock.control.errors import Forbidden
from penstock.store.engine import transaction
from penstock.wire.job_client import JobClient
from penstock.wire.jobs import BatchAction, BatchResult, BatchWrite
from tests.support.job_service.service import CONFIG, RunningJobService


def _write(action: BatchAction, job: str = "etl", **given: Any) -> BatchWrite:
    return BatchWrite(action=action, job=job, reason="together", **given)


def _rules(results: list[BatchResult]) -> list[str | None]:
    """The rule of each refusal; the action of each write that was done."""
    return [
        result.problem.rule if result.problem is not None else result.written.action if result.written else None
        for result in results
    ]


def test_each_operation_is_done_in_its_turn(service: RunningJobService, client: JobClient) -> None:
    client.put_job("etl", CONFIG)
    client.put_layer("etl", "scaler", {"priority": 1}, if_match=0)
    client.put_layer("etl", "scaler", {"priority": 2}, if_match=1)
    _quarantine(service, "etl")
    results = client.batch(
        [
            _write(BatchAction.REVERT, layer="scaler", if_match=2, version=1),
            _write(BatchAction.REVERT, layer="scaler", if_match=3, version=0),
            _write(BatchAction.RESTART),
            _write(BatchAction.RELEASE),
            _write(BatchAction.RESCALE, task_count=3, within_seconds=60.0),
        ]
    )
    assert _rules(results) == ["revert", "revert", "restart", "release", "patch"]
    job = client.get_job("etl")
    assert (job.config["task_count"], job.config["rescale_within_seconds"], job.restarts) == (3, 60.0, 1)
    assert client.get_layer("etl", "scaler").config is None
    assert client.get_layer("etl", "oncall").expires_at is None
    assert {entry.reason for entry in client.history("etl").entries[:5]} == {"together"}
    with transaction(service.engine) as connection:
        assert connection.execute(text("SELECT state FROM sync_state")).scalar_one() == "pending"


def test_a_refused_operation_changes_nothing_and_the_others_are_done(
    service: RunningJobService, client: JobClient
) -> None:
    for job in ("etl", "other"):
        client.put_job(job, {**CONFIG, "output": {"type": "kafka", "topic": job}})
    client.put_layer("other", "oncall", {"priority": 1}, if_match=0, expires_in_seconds=600)
    results = client.batch(
        [
            _write(BatchAction.REVERT, layer="base", if_match=1, version=7),
            _write(BatchAction.REVERT, layer="base", if_match=1),
            _write(BatchAction.REVERT, layer="base", version=1),
            _write(BatchAction.REVERT, version=1, if_match=1),
            _write(BatchAction.RELEASE),
            _write(BatchAction.RELEASE, "nobody"),
            _write(BatchAction.RESTART, "nobody"),
            _write(BatchAction.RESCALE),
            _write(BatchAction.RESCALE, task_count=9999),
            _write(BatchAction.RESCALE, "other", task_count=2),
            _write(BatchAction.RESCALE, "other", task_count=2, balance=True, expires_in_seconds=60),
            _write(BatchAction.RESCALE, "nobody", task_count=2),
            _write(BatchAction.RESTART),
        ]
    )
    assert _rules(results) == [
        "known", "required", "required", "required", "quarantined", "known", "known", "required", "max_task_count",
        "given_when_the_layer_expires", "measured", "known", "restart",
    ]  # fmt: skip
    assert [entry.action for entry in client.history("etl").entries] == ["restart", "create"]
    assert [entry.action for entry in client.history("other").entries] == ["put", "create"]


def test_a_batch_needs_the_rights_of_the_single_calls(service: RunningJobService, client: JobClient) -> None:
    client.put_job("etl", CONFIG)
    _quarantine(service, "etl")
    writes = [
        _write(BatchAction.REVERT, layer="base", if_match=1, version=1),
        _write(BatchAction.RESTART),
        _write(BatchAction.RELEASE),
        _write(BatchAction.RESCALE, task_count=2),
    ]
    expected = {
        "scaler": [403, 403, 403, 200],
        "provisioner": [200, 403, 403, 200],
        "oncall": [403, 200, 200, 200],
    }
    with service.client(client.create_token("a-reader", "reader")) as reader, pytest.raises(Forbidden):
        reader.batch(writes)
    for role in ("scaler", "provisioner", "oncall"):
        with service.client(client.create_token(f"a-{role}", role)) as holder:
            assert [result.status for result in holder.batch(writes)] == expected[role], role
    assert client.get_layer("etl", "scaler").config == {"task_count": 2}


def _quarantine(service: RunningJobService, job: str) -> None:
    with transaction(service.engine) as connection:
        row = text("INSERT INTO sync_state (job, revision, state) VALUES (:job, 1, 'quarantined')")
        connection.execute(row, {"job": job})
