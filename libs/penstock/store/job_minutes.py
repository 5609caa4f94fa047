"""Measurements of jobs by minute: hours that are over from `job_metrics`, later minutes from the samples of tasks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from itertools import chain
from typing import Any

from sqlalchemy import Connection, Row, text

from penstock.model.job_metrics import JOB_METRICS, JobMetric, JobMinutes, Over, minute_of, series

# A cast to REAL refuses what no REAL holds, and one such value would spoil the minutes of all jobs.
_REAL = "CASE WHEN abs({0}) < 1e-30 THEN 0 WHEN abs({0}) < 1e30 THEN CAST({0} AS real) END"
# As many as the job should have, where that is known.
_ALL_HEARD = "count(*) = coalesce(max(task_count), count(*))"
_OF_HEARD = "CASE WHEN count({0}) = count(*) THEN sum({0}) END"
_OVER_TASKS = {
    Over.SUM: f"CASE WHEN {_ALL_HEARD} AND count({{0}}) = count(*) THEN sum({{0}}) END",
    Over.MEAN: f"CASE WHEN {_ALL_HEARD} AND count({{0}}) = count(*) THEN avg({{0}}) END",
    Over.WORST: "max({0})",
    Over.COUNT: _OF_HEARD,
    Over.EVENTS: _OF_HEARD,
}


def minutes_of_job(job: str, since: str, until: str) -> str:
    """A query of the minutes of one job from the samples of its tasks. The arguments are SQL expressions."""
    columns = ", ".join(f"{_of_minute(metric)} AS {metric.name}" for metric in JOB_METRICS)
    return f"""SELECT minute, {columns} FROM task_metrics
        WHERE task_metrics.job = {job} AND minute >= {since} AND minute < {until} GROUP BY minute"""


def _of_minute(metric: JobMetric) -> str:
    measured = f"CAST({metric.of_task} AS double precision)"
    return _REAL.format(_OVER_TASKS[metric.over].format(measured))


_ROLLED = """
    SELECT hour AS first, {columns} FROM job_metrics
    WHERE job = :job AND hour > CAST(:since AS timestamptz) - interval '1 hour' AND hour < :until
        AND (CAST(:of_day AS integer[]) IS NULL
            OR CAST(extract(hour FROM hour AT TIME ZONE 'UTC') AS integer) = ANY(CAST(:of_day AS integer[])))
    ORDER BY hour
"""
# Both may have minutes of the hour that is being rolled: they are the same.
_SAMPLED = f"""
    SELECT minute AS first, {{columns}} FROM ({minutes_of_job(":job", ":since", ":until")}) minutes ORDER BY minute
"""
_ROLLED_UNTIL = text("SELECT hour FROM rolled")


def read_job_minutes(
    connection: Connection,
    job: str,
    since: datetime,
    until: datetime,
    metrics: Sequence[JobMetric] = JOB_METRICS,
    *,
    sampled_since: datetime | None = None,
    hours_of_day: Collection[int] | None = None,
) -> JobMinutes:
    """Values of each minute from that of `since` until before that of `until`; None where a minute is not known.

    Minutes come from samples of tasks where the hour is not rolled yet, and the present minute is not whole. Give a
    connection that sees one moment (`penstock.store.engine.snapshot`): an hour may be rolled between two reads. Samples
    from before `sampled_since` are not read, so minutes before it are unknown unless their hour is rolled. Of rolled
    hours only those at `hours_of_day` (UTC) are read.
    """
    first, end = minute_of(since), minute_of(until)
    rolled_until = connection.execute(_ROLLED_UNTIL).scalar_one_or_none() or first
    of_day = None if hours_of_day is None else sorted(hours_of_day)
    asked = {"job": job, "since": first, "until": end, "of_day": of_day}
    hours = connection.execute(_select(_ROLLED, metrics), asked).all()
    unrolled = max(first, rolled_until, sampled_since or first)
    minutes = connection.execute(_select(_SAMPLED, metrics), {"job": job, "since": unrolled, "until": end}).all()
    return JobMinutes(first, {metric.name: _series(metric, first, end, hours, minutes) for metric in metrics})


def _select(statement: str, metrics: Sequence[JobMetric]) -> Any:
    return text(statement.format(columns=", ".join(metric.name for metric in metrics) or "NULL"))


def _series(
    metric: JobMetric, since: datetime, until: datetime, hours: Sequence[Row[Any]], minutes: Sequence[Row[Any]]
) -> tuple[float | None, ...]:
    rolled = ((row.first, getattr(row, metric.name) or ()) for row in hours)
    sampled = ((row.first, (getattr(row, metric.name),)) for row in minutes)
    return series(since, until, chain(rolled, sampled))
