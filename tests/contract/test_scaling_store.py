"""The contract of `ScalingStore`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, text

from penstock.control.errors import Fenced, Unavailable
from penstock.store import leases
from penstock.store.engine import transaction
from services.auto_scaler.store.decisions import AUTO_SCALER, PENDING, NewDecision
from services.auto_scaler.store.port import ScalingStore
from services.auto_scaler.symptoms import TaskSample
from tests.support.store.jobs import write_layer
from tests.support.store.running import commit_job
from tests.support.store.unreachable import unreachable_engine

NOW = datetime.now(UTC).replace(second=30, microsecond=0) + timedelta(hours=1)


class PostgresForm:
    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.store = ScalingStore(engine)
        self.away = ScalingStore(unreachable_engine())
        with transaction(engine) as connection:
            self.epoch = leases.take(connection, AUTO_SCALER, "test", url="", seconds=600.0)

    def depose(self) -> None:
        self._do("UPDATE leases SET epoch = epoch + 1 WHERE name = 'auto_scaler'")

    def run(self, job: str, **config: Any) -> None:
        write_layer(self.engine, job, {})
        commit_job(self.engine, job, **config)

    def measure(self, job: str, minutes_ago: int, *, lag_seconds: float | None) -> None:
        minute = NOW.replace(second=0) - timedelta(minutes=minutes_ago)
        self._do(
            "INSERT INTO task_metrics (job, index, minute, lag_seconds, processed_rows_per_second)"
            " VALUES (:job, 0, :minute, :lag, 7)",
            job=job,
            minute=minute,
            lag=lag_seconds,
        )

    def outcomes(self) -> list[str]:
        with transaction(self.engine) as connection:
            found = connection.execute(text("SELECT outcome FROM decisions WHERE job = 'j' ORDER BY id"))
            return list(found.scalars())

    def _do(self, sql: str, **values: Any) -> None:
        with transaction(self.engine) as connection:
            connection.execute(text(sql), values)


@pytest.fixture
def form(engine: Engine) -> PostgresForm:
    return PostgresForm(engine)


def decision(outcome: str) -> NewDecision:
    return NewDecision("j", NOW, "lag", "increase_tasks", {}, {"task_count": 4}, outcome)


def test_jobs_with_tasks_are_read_and_what_was_not_measured_is_unknown(form: PostgresForm) -> None:
    form.run("measured")
    form.run("silent")
    form.run("stopped", desired_state="stopped")
    form.measure("measured", 1, lag_seconds=None)
    form.measure("silent", 30, lag_seconds=None)
    cluster = form.store.read(NOW)
    assert [job.job for job in cluster.jobs] == ["measured", "silent"]
    assert [job.layer_version for job in cluster.jobs] == [0, 0]
    (sample,) = cluster.samples["measured"]
    assert (sample.processed_rows_per_second, sample.input_rows_per_second, sample.backlog_records) == (7.0, None, None)
    assert "silent" not in cluster.samples
    assert cluster.container_memory_bytes is None, "no container is live"


def test_of_an_old_sample_nothing_is_known_but_the_lack_of_memory(form: PostgresForm) -> None:
    form.run("stale")
    form.measure("stale", 5, lag_seconds=None)
    assert form.store.read(NOW).samples["stale"] == [TaskSample(index=0)]


def test_a_day_counts_only_minutes_with_a_known_lag_as_measured(form: PostgresForm) -> None:
    for minutes_ago, lag_seconds in ((1, 5.0), (2, 95.0), (3, None), (25 * 60, 95.0)):
        form.measure("j", minutes_ago, lag_seconds=lag_seconds)
    day = form.store.day("j", NOW, 90.0)
    assert (day.minutes_measured, day.minutes_lagging, day.minutes_out_of_memory) == (2, 1, 0)


def test_decisions_are_stored_in_order_and_resolved_once(form: PostgresForm) -> None:
    pending, done = form.store.record([decision(PENDING), decision("nothing")], form.epoch)
    assert pending < done
    form.store.record_outcome(pending, "written")
    form.store.record_outcome(pending, "conflict")
    form.store.record_outcome(done, "conflict")
    assert form.outcomes() == ["written", "nothing"]
    assert form.store.record([], form.epoch) == []


def test_an_older_scaler_is_fenced_and_stores_nothing(form: PostgresForm) -> None:
    form.depose()
    for new in ([decision(PENDING)], []):
        with pytest.raises(Fenced):
            form.store.record(new, form.epoch)
    assert form.outcomes() == []


def test_a_store_that_is_away_is_unavailable(form: PostgresForm) -> None:
    calls = (
        lambda: form.away.read(NOW),
        lambda: form.away.day("j", NOW, 90.0),
        lambda: form.away.record([decision(PENDING)], form.epoch),
        lambda: form.away.record_outcome(1, "written"),
    )
    for call in calls:
        with pytest.raises(Unavailable):
            call()
