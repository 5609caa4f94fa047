"""The expiry loop: overrides whose time is over are dropped by recorded writes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest
from sqlalchemy import Connection, Engine, event, text

from penstock.control.errors import Fenced, Unavailable
from penstock.model.alerts import AlertKind
from penstock.store import leases
from penstock.store.engine import transaction
from penstock.wire.job_client import JobClient
from services.job_service.expiry import LOOP, Expiry
from tests.support.job_service.service import CONFIG, RunningJobService


class HandClock:
    """A clock that is set by hand, beginning now."""

    def __init__(self) -> None:
        self.at = datetime.now(UTC)

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.at.timestamp()

    def go(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


class Leader:
    """Does rounds under an epoch, whether or not another has one by now."""

    def __init__(self, expiry: Expiry, epoch: int) -> None:
        self._expiry, self._epoch = expiry, epoch

    def round(self) -> None:
        self._expiry.round(self._epoch)


@pytest.fixture
def expiry(service: RunningJobService, clock: HandClock) -> Leader:
    expiry = Expiry(service.engine, clock, answers_kept=timedelta(hours=1), admin_warning=timedelta(days=14))
    return Leader(expiry, _lead(service.engine, "me"))


def test_an_override_ends_by_a_recorded_write(client: JobClient, expiry: Leader, clock: HandClock) -> None:
    client.put_job("etl", CONFIG)
    put = client.put_layer("etl", "oncall", {"priority": 7}, if_match=0, reason="lag", expires_in_seconds=100)
    client.put_layer("etl", "scaler", {"task_count": 2}, if_match=0)
    clock.go(90)
    expiry.round()
    assert client.get_job("etl").config["priority"] == 7
    clock.go(20)
    expiry.round()
    expiry.round()
    job, entry = client.get_job("etl"), client.history("etl").entries[0]
    assert (job.config["priority"], job.config["task_count"]) == (0, 2)
    assert (entry.action, entry.author, entry.reason) == ("expire", "job_service", "expired: lag")
    assert (entry.version, entry.old, entry.new) == (2, {"priority": 7}, None)
    assert job.revision == entry.revision == put.revision + 2


def test_an_override_that_was_renewed_meanwhile_stays(client: JobClient, expiry: Leader, clock: HandClock) -> None:
    client.put_job("etl", CONFIG)
    client.put_layer("etl", "oncall", {"priority": 7}, if_match=0, expires_in_seconds=100)
    client.put_layer("etl", "oncall", {"priority": 7}, if_match=1, expires_in_seconds=None)
    clock.go(10**6)
    expiry.round()
    assert client.get_layer("etl", "oncall").version == 2


def test_an_override_that_accepts_late_rows_ends(client: JobClient, expiry: Leader, clock: HandClock) -> None:
    """Nobody is there to mend what it accepts. The job can be written afterwards."""
    timed = {"value_schema": "dest STRING, at TIMESTAMP", "event_time_column": "at", "watermark_delay": "1 minute"}
    source = {**CONFIG["inputs"]["flights"], **timed, "topic": "clean"}
    reader = {**CONFIG, "inputs": {"flights": source}, "output": {"type": "kafka", "topic": "counts"}}
    accepts = {"inputs": {"flights": {"allow_late_producers": True}}}
    client.put_job("reader", reader)
    client.put_layer("reader", "oncall", accepts, if_match=0, expires_in_seconds=100)
    client.put_job("writer", {**CONFIG, "output": {"type": "kafka", "topic": "clean"}})
    clock.go(200)
    expiry.round()
    assert client.get_layer("reader", "oncall").config is None
    assert client.alerts().alerts == []
    client.put_job("reader", {**reader, "query": {"sql": "SELECT dest FROM flights"}})


def test_what_cannot_be_dropped_stays_with_an_alert_until_it_can(
    client: JobClient, expiry: Leader, clock: HandClock
) -> None:
    """The scaler went above the base's limit, which the override had raised: without it the job is invalid."""
    client.put_job("etl", {**CONFIG, "max_task_count": 2})
    client.put_layer("etl", "oncall", {"max_task_count": 8}, if_match=0, expires_in_seconds=100)
    client.put_layer("etl", "scaler", {"task_count": 4}, if_match=0)
    clock.go(200)
    for _ in range(3):
        expiry.round()
    (alert,) = client.alerts(kind=AlertKind.EXPIRY_BLOCKED).alerts
    assert (alert.subject, alert.times, alert.details["field"]) == ("etl/oncall", 1, "task_count")
    assert client.get_layer("etl", "oncall").version == 1
    client.put_layer("etl", "scaler", {"task_count": 2}, if_match=1)
    expiry.round()
    assert client.get_layer("etl", "oncall").config is None
    expiry.round()
    assert client.alerts().alerts == []
    assert [alert.subject for alert in client.alerts(include_cleared=True).alerts] == ["etl/oncall"]


def test_an_override_of_the_output_ends_when_its_place_is_free(
    client: JobClient, expiry: Leader, clock: HandClock
) -> None:
    """1. Another job makes the same rows at the place that the override has left: each row would be there twice. It
    stays, with one alert. 2. The other job goes: nobody writes to this one, and the override ends within a minute."""
    client.put_job("etl", CONFIG)
    client.put_layer("etl", "oncall", {"output": {"topic": "moved"}}, if_match=0, expires_in_seconds=100)
    client.put_job("heir", CONFIG)
    topic = CONFIG["output"]["topic"]
    (name, source), *_ = CONFIG["inputs"].items()
    reads = {"inputs": {name: {**source, "topic": topic}}, "output": {**CONFIG["output"], "topic": "counts"}}
    client.put_job("reads", {**CONFIG, **reads})
    for seconds in (200, 61, 61):
        clock.go(seconds)
        expiry.round()
    (alert,) = client.alerts(kind=AlertKind.EXPIRY_BLOCKED).alerts
    assert (alert.subject, alert.times, alert.details["rule"]) == ("etl/oncall", 1, "read_by_others")
    assert "heir reads flights too, makes the same rows" in alert.message
    client.delete_job("heir")
    clock.go(61)
    expiry.round()
    assert client.get_job("etl").config["output"]["topic"] == topic


def test_a_refusal_counts_only_with_its_alert(
    client: JobClient, expiry: Leader, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transaction that raises the alert fails: the next round tries again."""
    client.put_job("etl", {**CONFIG, "max_task_count": 2})
    client.put_layer("etl", "oncall", {"max_task_count": 8}, if_match=0, expires_in_seconds=100)
    client.put_layer("etl", "scaler", {"task_count": 4}, if_match=0)
    clock.go(200)
    with monkeypatch.context() as patch:
        patch.setattr(leases, "check_epoch", _breaks_at_the_commit(leases.check_epoch))
        with pytest.raises(Unavailable):
            expiry.round()
    assert client.alerts(kind=AlertKind.EXPIRY_BLOCKED).alerts == []
    expiry.round()
    assert len(client.alerts(kind=AlertKind.EXPIRY_BLOCKED).alerts) == 1


def _breaks_at_the_commit(check: Callable[..., None]) -> Callable[..., None]:
    def checked(connection: Connection, *about: Any) -> None:
        check(connection, *about)

        @event.listens_for(connection, "commit")
        def fail(_: Connection) -> None:
            raise Unavailable("the connection broke")

    return checked


def test_a_job_that_is_being_deleted_is_left_alone(client: JobClient, expiry: Leader, clock: HandClock) -> None:
    client.put_job("etl", CONFIG)
    client.put_layer("etl", "oncall", {"priority": 7}, if_match=0, expires_in_seconds=100)
    revision = client.delete_job("etl").revision
    clock.go(200)
    expiry.round()
    assert client.get_job("etl").revision == revision


def test_hundreds_end_at_once(client: JobClient, expiry: Leader, clock: HandClock, service: RunningJobService) -> None:
    with transaction(service.engine) as connection:
        connection.execute(text("INSERT INTO jobs (name, revision) SELECT 'j' || n, 1 FROM generate_series(1, 600) n"))
        for layer, expires in (("base", "NULL"), ("oncall", "now()")):
            connection.execute(
                text(
                    "INSERT INTO expected_layers (job, layer, config, version, revision, author, expires_at)"
                    f" SELECT name, '{layer}', CAST(:config AS jsonb), 1, 1, 'ann', {expires} FROM jobs"
                ),
                {"config": orjson.dumps(CONFIG if layer == "base" else {"priority": 1}).decode()},
            )
    clock.go(10)
    expiry.round()
    with transaction(service.engine) as connection:
        assert connection.execute(text("SELECT count(*) FROM history WHERE action = 'expire'")).scalar_one() == 600


def test_an_old_leader_is_fenced(
    client: JobClient, expiry: Leader, clock: HandClock, service: RunningJobService
) -> None:
    client.put_job("etl", CONFIG)
    client.put_layer("etl", "oncall", {"priority": 7}, if_match=0, expires_in_seconds=100)
    clock.go(200)
    with transaction(service.engine) as connection:
        leases.release(connection, LOOP, "me")
    _lead(service.engine, "other")
    with pytest.raises(Fenced):
        expiry.round()
    assert client.get_layer("etl", "oncall").version == 1


def test_answers_are_kept_for_their_time(
    client: JobClient, expiry: Leader, clock: HandClock, service: RunningJobService
) -> None:
    client.put_job("etl", CONFIG, idempotency_key="old")
    with transaction(service.engine) as connection:
        connection.execute(text("UPDATE idempotency SET at = at - interval '2 hours'"))
    client.restart("etl", idempotency_key="new")
    expiry.round()
    with transaction(service.engine) as connection:
        assert connection.execute(text("SELECT key FROM idempotency")).scalars().all() == ["new"]


def _lead(engine: Engine, holder: str) -> int:
    with transaction(engine) as connection:
        epoch = leases.take(connection, LOOP, holder, url="", seconds=600)
    assert epoch is not None
    return epoch
