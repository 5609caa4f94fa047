"""What a job and its tasks measured, and how the fleet was."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import Query
from pydantic import AwareDatetime

from penstock.model.job_metrics import METRICS_BY_NAME
from penstock.store.engine import snapshot
from penstock.store.job_minutes import read_job_minutes
from penstock.wire.overview import JobSeries, MetricSeries, Series, TaskSamples
from services.job_service import requests
from services.job_service.requests import JobName, PartsOf, known_job
from services.job_service.series import known_metrics, series_of, span_of
from services.job_service.store import overview
from services.job_service.store.fleet_minutes import read_minutes

router = requests.router_of("one job")
Minutes = Annotated[int, Query(ge=1, le=14 * 1440, description="how many minutes back")]
Metrics = Annotated[
    list[str],
    Query(
        default_factory=list,
        max_length=100,
        description="names of metrics; without any: all",
        json_schema_extra={"items": {"type": "string", "enum": list(METRICS_BY_NAME)}},
    ),
]
From = Annotated[AwareDatetime | None, Query(alias="from", description="default: an hour before `to`")]
To = Annotated[AwareDatetime | None, Query(description="not included; default: the present minute")]
StepSeconds = Annotated[
    int | None,
    Query(ge=60, le=86_400, multiple_of=60, description="default: the shortest that gives at most 1,500 points"),
]
_MOST_SAMPLES = 10_000


@router.get("/v1/jobs/{job}/metrics", response_model=JobSeries)
def job_metrics(
    job: JobName,
    parts: PartsOf,
    metric: Metrics,
    since: From = None,
    to: To = None,
    step_seconds: StepSeconds = None,
) -> JobSeries:
    """Series of what the job measured, with a value of each step; null is unknown, never zero.

    A value of a longer step is the mean of its known minutes, and the greatest of lags, durations and counts. A minute
    is known once it is over.
    """
    span, metrics = span_of(since, to, step_seconds, parts.clock.now()), known_metrics(metric)
    with snapshot(parts.engine) as connection:
        known_job(connection, job)
        found = read_job_minutes(connection, job, span.since, span.until, metrics)
    return series_of(job, span, metrics, found)


@router.get("/v1/fleet/metrics", response_model=Series, tags=["fleet"])
def fleet_metrics(parts: PartsOf, since: From = None, to: To = None, step_seconds: StepSeconds = None) -> Series:
    """How many jobs had each health (`jobs_<health>`), and how many tasks should run (`tasks`), run, or are reported
    and do not run. Means of the minutes of a step that are known; null is unknown. 35 days are kept unless the setting
    says otherwise. Health is counted each minute with few jobs, and more rarely with many thousands."""
    span = span_of(since, to, step_seconds, parts.clock.now())
    with snapshot(parts.engine) as connection:
        found = read_minutes(connection, span)
    series = [MetricSeries(metric=name, unit="", values=values) for name, values in found.items()]
    return Series(since=span.since, until=span.until, step_seconds=60 * span.step_minutes, series=series)


@router.get("/v1/jobs/{job}/tasks/metrics", response_model=TaskSamples)
def task_metrics(job: JobName, parts: PartsOf, minutes: Minutes = 60) -> TaskSamples:
    """Measurements of each of the job's tasks by minute, newest first. They are kept for two days."""
    with snapshot(parts.engine) as connection:
        known_job(connection, job)
        found = overview.samples(connection, job, window=timedelta(minutes=minutes), limit=_MOST_SAMPLES + 1)
    return TaskSamples(job=job, samples=list(found[:_MOST_SAMPLES]), complete=len(found) <= _MOST_SAMPLES)
