"""The recent rates and the backlog of a job: sums over all its tasks."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import Connection, text

from penstock.tasks.rates import Rates

# A minute without input says nothing about how fast a task can be, so its rate of 0 does not count.
_RATES = text(
    """
    SELECT CASE WHEN count(input) = :task_count THEN sum(input) END,
        CASE WHEN count(processed) = :task_count THEN sum(processed) END,
        CASE WHEN count(backlog) = :task_count THEN CAST(sum(backlog) AS bigint) END
    FROM (
        SELECT avg(input_rows_per_second) AS input, avg(NULLIF(processed_rows_per_second, 0)) AS processed,
            (array_agg(backlog_records ORDER BY minute DESC))[1] AS backlog
        FROM task_metrics
        WHERE job = :job AND index < :task_count AND minute >= now() - CAST(:window AS interval)
        GROUP BY index
    ) AS measured
    """
)


def read_rates(connection: Connection, job: str, *, task_count: int, window: timedelta) -> Rates:
    """Sums over tasks 0 to `task_count` - 1 in the last `window`. A figure is None if a task did not measure it."""
    values = {"job": job, "task_count": task_count, "window": window}
    return Rates(*connection.execute(_RATES, values).one())
