"""A replay, from a call of the Job Service to the figures of the Auto Scaler, on a real store."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fastapi import FastAPI, HTTPException
from sqlalchemy import Engine, text

from penstock.control.clock import SystemClock
from penstock.control.errors import InvalidConfig, NotFound, Unavailable
from penstock.store import leases, tokens
from penstock.store.engine import transaction
from penstock.wire.job_client import JobClient
from penstock.wire.replays import BUSY, HAS_NO_TASKS
from services.auto_scaler.api import build_app
from services.auto_scaler.decide.policy import Policy
from services.auto_scaler.replays import Replays
from services.auto_scaler.store.decisions import AUTO_SCALER
from services.auto_scaler.store.port import ScalingStore
from services.job_service.api import create_api
from services.job_service.settings import JobServiceSettings
from tests.support import identity
from tests.support.control.serving import serving
from tests.support.store.jobs import write_layer
from tests.support.store.running import commit_job

NOW = datetime.now(UTC).replace(second=30, microsecond=0)
MINUTES = 120
# Of a service's threads for calls, by default of anyio.
THREADS = 40
WAIT_SECONDS = 20.0


@pytest.fixture
def client(engine: Engine, database_url: str) -> Iterator[JobClient]:
    """An admin's client of a Job Service whose cell has an Auto Scaler that leads."""
    replays = Replays(ScalingStore(engine), lambda: NOW, Policy())
    scaler = build_app(replays, ready=dict, identity=identity.identity("auto_scaler"))
    settings = JobServiceSettings(database_url=database_url, path_roots=("/",))
    api = create_api(engine, SystemClock(), settings, identity.outgoing("job_service"))
    with serving(scaler) as scaler_url, serving(api) as url, transaction(engine) as connection:
        admin = str(tokens.create_first_admin(connection))
        leases.take(connection, AUTO_SCALER, "test", url=scaler_url, seconds=600.0)
        connection.commit()
        with JobClient(url, admin) as found:
            yield found


def run(engine: Engine, job: str = "j", **config: Any) -> None:
    """A job of two tasks whose owner declares one, created long ago."""
    write_layer(engine, job, {"task_count": 1})
    commit_job(engine, job, **({"task_count": 2, "slo": {"max_lag_seconds": 90.0}} | config))
    do(engine, "UPDATE jobs SET created_at = :at", at=NOW - timedelta(days=30))


def measure(engine: Engine, job: str = "j") -> None:
    """Two hours in which two busy tasks do 100 rows/s each; in the second, 300 rows/s come in."""
    do(engine, "UPDATE rolled SET hour = :hour, job = ''", hour=(NOW - timedelta(days=2)).replace(minute=0, second=0))
    for ago in range(MINUTES, 0, -1):
        behind = max(0, 61 - ago) * 100 * 60 / 2
        for index in range(2):
            do(
                engine,
                "INSERT INTO task_metrics (job, index, minute, input_rows_per_second, processed_rows_per_second,"
                " backlog_records, lag_seconds, busy_share, running, task_count)"
                " VALUES (:job, :index, :minute, :read, 100, :backlog, :lag, 1, true, 2)",
                job=job,
                index=index,
                minute=NOW.replace(second=0) - timedelta(minutes=ago),
                read=75 if ago > 60 else 100,
                backlog=behind,
                lag=behind / 100,
            )


def do(engine: Engine, sql: str, **values: Any) -> None:
    with transaction(engine) as connection:
        connection.execute(text(sql), values)


def decide(engine: Engine, inputs: dict[str, Any]) -> None:
    """A decision that nobody made of these inputs."""
    do(
        engine,
        "INSERT INTO decisions (job, at, symptom, action, inputs, change, outcome, leader_epoch)"
        " VALUES ('j', :at, 'lag', 'increase_tasks', CAST(:inputs AS jsonb), '{\"task_count\": 4}', 'written', 1)",
        at=NOW - timedelta(minutes=30),
        inputs=json.dumps(inputs),
    )


def test_a_replay_tells_what_happened_and_what_the_model_says(engine: Engine, client: JobClient) -> None:
    """1. A job lags for an hour. 2. The model of what ran says the same. 3. A policy that grows misses less of the SLO
    than one that only advises, for more hours of tasks."""
    run(engine)
    measure(engine)
    decide(engine, {"of": "another release"})
    since = NOW - timedelta(minutes=MINUTES)
    found = client.replay("j", {"mode": "advise"}, since=since, until=NOW)
    assert (found.minutes, found.minutes_known, found.decisions, found.decisions_otherwise) == (120, 120, 1, 0)
    assert found.measured.slo_minutes_missed == found.model_of_measured.slo_minutes_missed == 57
    assert (found.measured.task_hours, found.measured.actions) == (4.0, 1)
    assert found.proposed == found.model_of_measured
    assert found.in_force.slo_minutes_missed < 20
    assert found.in_force.actions >= 1
    assert found.in_force.task_hours > found.proposed.task_hours
    assert any("another release" in note for note in found.notes)
    assert any("never rescaled" in note for note in found.notes)
    assert found.proposed == client.replay("j", {"mode": "advise"}, since=since, until=NOW).proposed


def test_the_last_rescale_is_the_cost_of_a_change_and_past_days_are_read(engine: Engine, client: JobClient) -> None:
    run(engine)
    measure(engine)
    do(engine, 'UPDATE running SET rescale_seconds = \'{"total": 500, "copy_state": 100}\'')
    found = client.replay("j", {}, since=NOW - timedelta(minutes=60))
    assert not any("never rescaled" in note for note in found.notes)
    assert found.minutes == 60
    assert found.proposed == found.in_force
    assert found.proposed.slo_minutes_missed > 8


def test_a_policy_that_breaks_a_rule_is_refused_by_its_field(engine: Engine, client: JobClient) -> None:
    run(engine)
    with pytest.raises(InvalidConfig) as refused:
        client.replay("j", {"growth_factor": 0.5})
    assert (refused.value.field, refused.value.rule) == ("policy.growth_factor", "greater_than")


def test_a_job_that_is_unknown_or_has_no_tasks_is_not_found(engine: Engine, client: JobClient) -> None:
    run(engine, "stopped", desired_state="stopped")
    with pytest.raises(NotFound) as unknown:
        client.replay("unknown", {})
    with pytest.raises(NotFound) as stopped:
        client.replay("stopped", {})
    assert (unknown.value.rule, stopped.value.rule) == ("known", HAS_NO_TASKS)


def test_without_an_auto_scaler_it_is_unavailable(engine: Engine, client: JobClient) -> None:
    run(engine)
    do(engine, "UPDATE leases SET url = 'http://127.0.0.1:1' WHERE name = 'auto_scaler'")
    with pytest.raises(Unavailable, match="cannot be reached"):
        client.replay("j", {})
    do(engine, "DELETE FROM leases WHERE name = 'auto_scaler'")
    with pytest.raises(Unavailable, match="no Auto Scaler"):
        client.replay("j", {})


def test_many_replays_hold_one_thread_of_the_job_service(engine: Engine, database_url: str) -> None:
    """1. A replay waits for the Auto Scaler. 2. More of them than the service has threads are refused while it does.
    3. Jobs are listed meanwhile. 4. The first one gets its answer."""
    asked, may_end = threading.Event(), threading.Event()
    scaler = FastAPI()

    @scaler.post("/v1/replays")
    def refuse() -> None:
        asked.set()
        assert may_end.wait(WAIT_SECONDS)
        raise HTTPException(404, "no tasks")

    run(engine)
    settings = JobServiceSettings(database_url=database_url, path_roots=("/",))
    api = create_api(engine, SystemClock(), settings, identity.outgoing("job_service"))
    with serving(scaler) as scaler_url, serving(api) as url, transaction(engine) as connection:
        admin = str(tokens.create_first_admin(connection))
        leases.take(connection, AUTO_SCALER, "test", url=scaler_url, seconds=600.0)
        connection.commit()
        with JobClient(url, admin) as client, ThreadPoolExecutor(THREADS + 1) as threads:
            first = threads.submit(client.replay, "j", {})
            try:
                assert asked.wait(WAIT_SECONDS)
                others = [threads.submit(client.replay, "j", {}) for _ in range(THREADS)]
                refusals = [each.exception(timeout=WAIT_SECONDS / 2) for each in others]
                assert {str(each) for each in refusals} == {BUSY}
                assert [job.job for job in client.list_jobs()] == ["j"]
            finally:
                may_end.set()
            with pytest.raises(NotFound):
                first.result()
