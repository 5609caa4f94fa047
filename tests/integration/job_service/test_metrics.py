"""What a job and its tasks measured, over HTTP."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from penstock.control.errors import InvalidConfig, NotFound
from penstock.model.job_metrics import JOB_METRICS
from penstock.wire.job_client import JobClient
from tests.support import calls
from tests.support.job_service.service import CONFIG, RunningJobService
from tests.support.job_service.stored import execute

_MEASURED = """INSERT INTO task_metrics (job, index, minute, lag_seconds, backlog_records)
    VALUES ('etl', {index}, date_trunc('minute', now()) - interval '{ago} minutes', {lag}, 7)"""


def test_minutes_of_a_job_are_told_with_the_gaps_between_them(service: RunningJobService, client: JobClient) -> None:
    """1. Two minutes of one task, and one of two. 2. All metrics by default. 3. Longer steps. 4. By task."""
    client.put_job("etl", CONFIG)
    for index, ago, lag in ((0, 2, 1.5), (0, 4, 3), (1, 4, 2)):
        execute(service, _MEASURED.format(index=index, ago=ago, lag=lag))
    until = datetime.now(UTC)
    since = until - timedelta(minutes=5)
    found = client.metrics("etl", metric=["lag_seconds", "backlog_records"], since=since, until=until)
    assert {each.metric: each.values for each in found.series} in (
        {"backlog_records": [None, 14.0, None, 7.0, None], "lag_seconds": [None, 3.0, None, 1.5, None]},
        {"backlog_records": [14.0, None, 7.0, None, None], "lag_seconds": [3.0, None, 1.5, None, None]},
    )
    everything = client.metrics("etl")
    assert [each.metric for each in everything.series] == [metric.name for metric in JOB_METRICS]
    assert (everything.step_seconds, {len(each.values) for each in everything.series}) == (60, {60})
    (hours,) = client.metrics("etl", metric=["lag_seconds"], step_seconds=3600).series
    assert hours.values == [3.0]
    assert [sample.index for sample in client.task_metrics("etl").samples] == [0, 0, 1]


def test_what_cannot_be_answered_is_refused(service: RunningJobService, client: JobClient) -> None:
    with pytest.raises(NotFound):
        client.metrics("none")
    with pytest.raises(NotFound):
        client.task_metrics("none")
    client.put_job("etl", CONFIG)
    with pytest.raises(InvalidConfig, match="there is no metric lag; there are"):
        client.metrics("etl", metric=["lag"])
    with pytest.raises(InvalidConfig):
        client.metrics("etl", step_seconds=61)
    path = f"{service.url}/v1/jobs/etl/metrics"
    assert calls.get(path).status_code == 401
    signed = {"Authorization": f"Bearer {service.admin}"}
    naive = calls.get(path, params={"from": "2026-01-01T00:00:00"}, headers=signed)
    assert (naive.status_code, "from" in naive.text) == (422, True)
