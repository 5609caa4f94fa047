"""What is read of single jobs: their recent minutes, their last day, and the same time of day on past days."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection, text

from penstock.model.job_metrics import HOUR, METRICS_BY_NAME, MINUTE
from penstock.store.job_minutes import read_job_minutes
from penstock.tasks.dimensions import DISK, MEMORY, NETWORK
from services.auto_scaler.decide.estimates import TaskMinute
from services.auto_scaler.decide.model import DayHistory, Use
from services.auto_scaler.decide.patterns import JobMinute

DAY = timedelta(days=1)
_USED = (MEMORY, DISK, NETWORK)
# An hour is rolled soon after it is over. While rolling is behind, a statement could not read all samples in time.
_UNROLLED = timedelta(hours=2)
# `tasks_running` is known of minutes that this release sampled. The release before did not say how many tasks the job
# had, so a minute in which one is missing looks whole.
_OF_PAST_DAYS = tuple(METRICS_BY_NAME[name] for name in ("input_rows_per_second", "backlog_records", "tasks_running"))

_RECENT = text(
    """
    SELECT minute, index, input_rows_per_second, processed_rows_per_second, backlog_records, state_rows,
        state_memory_bytes
    FROM task_metrics WHERE job = :job AND minute >= CAST(:since AS timestamptz)
    ORDER BY minute, index
    """
)
# A minute counts as measured when the job's worst task has a known lag in it.
_DAY = text(
    """
    WITH minutes AS (
        SELECT minute, max(lag_seconds) AS lag, bool_or(out_of_memory) AS out_of_memory
        FROM task_metrics WHERE job = :job AND minute >= CAST(:since AS timestamptz) GROUP BY minute
    )
    SELECT count(*) FILTER (WHERE lag IS NOT NULL) AS measured,
        count(*) FILTER (WHERE lag > :slo_seconds) AS lagging,
        count(*) FILTER (WHERE out_of_memory) AS out_of_memory,
        count(*) FILTER (WHERE lag IS NOT NULL AND minute > coalesce(
            (SELECT max(minute) FROM minutes WHERE lag > :slo_seconds OR out_of_memory), '-infinity')) AS quiet
    FROM minutes
    """
)
# A load that is malformed is not known, nor one of another generation or of long ago.
_LARGEST = text(
    """
    SELECT dimension, max(amount) AS largest FROM (
        SELECT dimension, CASE jsonb_typeof(load->dimension) WHEN 'number'
            THEN CAST(load->>dimension AS double precision) END AS amount
        FROM task_loads JOIN running USING (job, generation) CROSS JOIN unnest(CAST(:dimensions AS text[])) AS dimension
        WHERE job = :job AND index < :task_count AND measured_at >= CAST(:measured_since AS timestamptz)
    ) loads GROUP BY dimension HAVING count(amount) = :task_count
    """
)
_SMALLEST = text(
    """
    SELECT dimension, min(amount) AS smallest FROM (
        SELECT 'disk_bytes' AS dimension, CAST(disk_bytes AS double precision) AS amount FROM containers
        WHERE state = 'live'
        UNION ALL
        SELECT key, CASE jsonb_typeof(value) WHEN 'number' THEN CAST(value AS double precision) END
        FROM containers, jsonb_each(further_capacity) WHERE state = 'live'
    ) capacities WHERE amount > 0 GROUP BY dimension
    """
)


def read_recent(connection: Connection, job: str, *, since: datetime) -> list[TaskMinute]:
    """What each task of a job measured in each minute since a time, oldest first."""
    return [TaskMinute(*row) for row in connection.execute(_RECENT, {"job": job, "since": since})]


def read_day(connection: Connection, job: str, *, since: datetime, slo_seconds: float) -> DayHistory:
    """The minutes of a job since a time."""
    row = connection.execute(_DAY, {"job": job, "since": since, "slo_seconds": slo_seconds}).one()
    return DayHistory(
        minutes_measured=row.measured,
        minutes_lagging=row.lagging,
        minutes_out_of_memory=row.out_of_memory,
        minutes_quiet=row.quiet,
    )


def read_past_days(
    connection: Connection, job: str, now: datetime, *, since: datetime, before: timedelta, after: timedelta
) -> list[JobMinute]:
    """The minutes around this time of day, today and on past days, oldest first. Minutes of which not every task was
    measured are missing, and so are those before the last two hours that are not rolled."""
    found = read_job_minutes(
        connection,
        job,
        since,
        now,
        _OF_PAST_DAYS,
        sampled_since=now - _UNROLLED,
        hours_of_day=hours_around(now, before, after),
    )
    read, backlog, running = (found.values[metric.name] for metric in _OF_PAST_DAYS)
    return [
        JobMinute(minute, rows, waiting)
        for number, (rows, waiting, known) in enumerate(zip(read, backlog, running, strict=True))
        if rows is not None
        and known is not None
        and _is_around(minute := found.since + number * MINUTE, now, before, after)
    ]


def hours_around(now: datetime, before: timedelta, after: timedelta) -> set[int]:
    """The hours of the day, in UTC, that have a minute around the time of day of `now`."""
    first = (now - before).astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    return {(first + hours * HOUR).hour for hours in range(-((first - now - after) // HOUR))}


def _is_around(minute: datetime, now: datetime, before: timedelta, after: timedelta) -> bool:
    """Whether it lies around the time of day of `now`, on its day."""
    return (minute - now + before) % DAY < before + after


def largest_loads(connection: Connection, job: str, task_count: int, *, measured_since: datetime) -> dict[str, float]:
    """By dimension, the amount of the task of a job that uses most. A dimension is missing when not every task is
    measured in it as it runs now."""
    asked = {"job": job, "task_count": task_count, "dimensions": list(_USED), "measured_since": measured_since}
    return {row.dimension: row.largest for row in connection.execute(_LARGEST, asked)}


def smallest_capacities(connection: Connection) -> dict[str, float]:
    """By dimension, what the live container that has least of it has."""
    return {row.dimension: row.smallest for row in connection.execute(_SMALLEST)}


def uses(largest: Mapping[str, float], smallest: Mapping[str, float]) -> tuple[Use, ...]:
    """Disk and network, where both the loads and the containers tell them."""
    return tuple(
        Use(dimension=name, of_task=largest[name], of_container=smallest[name])
        for name in (DISK, NETWORK)
        if name in largest and name in smallest
    )
