"""The fleet by minute: noted once a minute, read as means of steps; what nobody counted is unknown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from penstock.control.errors import InvalidConfig
from penstock.control.process import wait_until
from penstock.model.job_metrics import minute_of
from penstock.model.states import Health
from penstock.store import leases
from penstock.store.engine import transaction
from penstock.wire.job_client import JobClient
from penstock.wire.overview import Series
from services.job_service.census import Census
from services.job_service.expiry import LOOP
from services.job_service.housekeeping import Housekeeping
from services.job_service.metrics import Fleet
from services.job_service.store.fleet_counts import FleetCounts
from services.job_service.store.fleet_minutes import METRICS, note_health, note_tasks
from tests.support.control.clock import FakeClock
from tests.support.job_service.service import CONFIG, RunningJobService

NOW = minute_of(datetime.now(UTC))


def note(
    service: RunningJobService, minutes_ago: int, *, tasks: tuple[int, int, int] | None = None, **jobs: int
) -> None:
    at = NOW - timedelta(minutes=minutes_ago, seconds=-7)
    with transaction(service.engine) as connection:
        if tasks is not None:
            note_tasks(connection, FleetCounts(*tasks, 0.0, 0.0, 0.0, 0), at)
        if jobs:
            note_health(connection, {Health(name): count for name, count in jobs.items()}, at)


def read(client: JobClient, minutes: int, step_seconds: int | None = None) -> Series:
    return client.fleet_metrics(since=NOW - timedelta(minutes=minutes), until=NOW, step_seconds=step_seconds)


def values(series: Series) -> dict[str, list[float | None]]:
    return {each.metric: each.values for each in series.series}


def test_each_minute_has_its_first_count_and_the_others_are_unknown(
    service: RunningJobService, client: JobClient
) -> None:
    note(service, 3, tasks=(9, 8, 1), healthy=4, lagging=1)
    note(service, 3, tasks=(1, 1, 0), healthy=1)
    note(service, 1, healthy=3)
    found = values(read(client, 4))
    assert set(found) == set(METRICS)
    assert found["jobs_healthy"] == [None, 4.0, None, 3.0]
    assert found["jobs_lagging"] == [None, 1.0, None, 0.0]
    assert found["jobs_stopped"] == [None, 0.0, None, 0.0]
    assert found["tasks"] == [None, 9.0, None, None]
    assert found["tasks_not_running"] == [None, 1.0, None, None]


def test_a_step_has_the_mean_of_its_known_minutes(service: RunningJobService, client: JobClient) -> None:
    for ago, healthy, crashing in ((5, 4, 0), (4, 2, 1), (3, 6, 6)):
        note(service, ago, tasks=(healthy, healthy, 0), healthy=healthy, **({"crashing": crashing} if crashing else {}))
    series = read(client, 5, step_seconds=120)
    assert (series.since, series.until, series.step_seconds) == (NOW - timedelta(minutes=5), NOW, 120)
    found = values(series)
    assert found["jobs_healthy"] == [3.0, 6.0, None]
    assert found["jobs_crashing"] == [0.5, 6.0, None]
    assert found["tasks_running"] == [3.0, 6.0, None]


def test_a_count_without_a_job_is_known(service: RunningJobService, client: JobClient) -> None:
    with transaction(service.engine) as connection:
        note_health(connection, {}, NOW - timedelta(minutes=1))
    assert values(read(client, 1))["jobs_healthy"] == [0.0]


def test_what_cannot_be_answered_is_refused(client: JobClient) -> None:
    with pytest.raises(InvalidConfig) as refused:
        client.fleet_metrics(since=NOW, until=NOW)
    assert refused.value.field == "from"


def test_what_is_counted_for_prometheus_is_written_down(service: RunningJobService, client: JobClient) -> None:
    client.put_job("etl", CONFIG | {"task_count": 3}, verify=False)
    clock = FakeClock()
    counts = Census(service.engine, clock)
    wait_until(lambda: counts.count().complete, 20, "the count")
    fleet = Fleet(service.engine, clock, counts)
    for _ in range(2):
        fleet.read_again()
    with transaction(service.engine) as connection:
        rows = connection.execute(text("SELECT minute, health, tasks FROM fleet_minutes")).all()
    assert [(row.health, row.tasks) for row in rows] == [({"starting": 1}, 0)]
    assert rows[0].minute == minute_of(clock.now())


def test_old_minutes_go(service: RunningJobService, client: JobClient) -> None:
    with transaction(service.engine) as connection:
        leader_epoch = leases.take(connection, LOOP, "me", url="", seconds=600)
    assert leader_epoch is not None
    note(service, 60, healthy=1)
    note(service, 5, healthy=2)
    Housekeeping(service.engine, FakeClock(), LOOP, {"fleet_minutes": timedelta(minutes=30)}).round(leader_epoch)
    assert [each for each in values(read(client, 90))["jobs_healthy"] if each is not None] == [2.0]
