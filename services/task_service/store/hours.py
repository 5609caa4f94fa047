"""Hours of jobs, rolled from the samples of their tasks once an hour is over, in pages of jobs; old ones go."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, Engine, text

from penstock.model.job_metrics import JOB_METRICS
from penstock.store.engine import transaction
from penstock.store.job_minutes import minutes_of_job
from services.task_service.samples import page_of, task_count
from services.task_service.store.samples import bound_locks

MOST_JOBS, MOST_TASKS = 500, 2_000
"""Of one page: 120,000 samples, which take a good second."""
# The samples of the last minute may be committed some time after it. Another process that rolls now is left to it.
_DUE = text(
    """
    SELECT hour, job FROM rolled WHERE hour + interval '62 minutes' <= clock_timestamp() FOR UPDATE SKIP LOCKED
    """
)
_JOBS = text("SELECT job, config->'task_count' FROM running WHERE job > :after ORDER BY job LIMIT :most")
_ADD_DAY = text("SELECT add_job_metrics_day(:hour)")
_MOVE = text("UPDATE rolled SET job = :job")
# The next hour with samples; a minute that a clock ahead of others wrote is no reason to wait for it.
_FINISH = text(
    """
    UPDATE rolled SET job = '', hour = LEAST(present.hour, (
        SELECT date_trunc('hour', min(minute), 'UTC') FROM task_metrics
        WHERE minute >= rolled.hour + interval '1 hour'))
    FROM date_trunc('hour', clock_timestamp(), 'UTC') AS present (hour)
    """
)
_NAMES = [metric.name for metric in JOB_METRICS]
_ARRAYS = ", ".join(
    f"NULLIF(array_agg(minutes.{name} ORDER BY slot.minute), array_fill(CAST(NULL AS real), ARRAY[60]))"
    for name in _NAMES
)
_ROLL = text(
    f"""
    INSERT INTO job_metrics (job, hour, {", ".join(_NAMES)})
    SELECT asked.job, :hour, rolled.*
    FROM unnest(CAST(:jobs AS text[])) AS asked (job) CROSS JOIN LATERAL (
        SELECT {_ARRAYS}
        FROM generate_series(CAST(:hour AS timestamptz), CAST(:hour AS timestamptz) + interval '59 minutes',
                interval '1 minute') AS slot (minute)
            LEFT JOIN (
                {minutes_of_job("asked.job", ":hour", "CAST(:hour AS timestamptz) + interval '1 hour'")}
            ) AS minutes ON minutes.minute = slot.minute
        HAVING count(minutes.minute) > 0
    ) AS rolled
    ON CONFLICT (job, hour) DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in _NAMES)}
    """
)
_DROP_OLDEST = text("SELECT drop_oldest_job_metrics(:days)")


class Rolled(NamedTuple):
    """A page that was rolled. `is_whole`: the hour is done."""

    hour: datetime
    jobs: int
    is_whole: bool


class HourStore:
    """The job store for the sampler. Every call raises Unavailable and StatementTimedOut."""

    def __init__(self, engine: Engine, *, most_jobs: int = MOST_JOBS, most_tasks: int = MOST_TASKS) -> None:
        self._engine = engine
        self._most_jobs = most_jobs
        self._most_tasks = most_tasks

    def roll(self) -> Rolled | None:
        """Rolls the next page of the oldest hour that is over and not rolled. None: nothing is due, or another process
        is at it. A page that was rolled in part before is rolled anew, with the same result."""
        with transaction(self._engine) as connection:
            bound_locks(connection)
            due = connection.execute(_DUE).one_or_none()
            if due is None:
                return None
            found = connection.execute(_JOBS, {"after": due.job, "most": self._most_jobs}).all()
            page = page_of([(job, task_count(count)) for job, count in found], self._most_tasks)
            is_whole = len(page) == len(found) < self._most_jobs
            jobs = _roll(connection, due.hour, page)
            if is_whole:
                connection.execute(_FINISH)
            else:
                connection.execute(_MOVE, {"job": page[-1]})
            return Rolled(due.hour, jobs, is_whole)

    def drop_oldest(self, keep_days: int) -> str | None:
        """Drops the oldest day, if all of it is older than `keep_days`. Its table; None when there was none."""
        with transaction(self._engine) as connection:
            bound_locks(connection)
            dropped: str | None = connection.execute(_DROP_OLDEST, {"days": keep_days}).scalar_one()
            return dropped


def _roll(connection: Connection, hour: datetime, jobs: Sequence[str]) -> int:
    if not jobs:
        return 0
    connection.execute(_ADD_DAY, {"hour": hour})
    return connection.execute(_ROLL, {"hour": hour, "jobs": list(jobs)}).rowcount
