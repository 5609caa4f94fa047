"""How many tasks of all jobs run, and how old the changes are that not all of them run. For metrics: one statement."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, text

from penstock.model.health import SILENT, START

# A task that is not heard is unknown. A task that nobody reports is behind only while it may still be starting: later
# it is one that does not run, whatever changed last.
_COUNT = text(
    """
    WITH tasks_of AS (
        SELECT running.job, running.revision, running.committed_at,
            coalesce(CAST(running.config->>'task_count' AS integer), 1) AS wanted,
            count(DISTINCT tasks.index) FILTER (WHERE tasks.state = 'running') AS up,
            count(DISTINCT tasks.index) AS heard,
            count(DISTINCT tasks.index) FILTER (WHERE tasks.revision < running.revision) AS behind
        FROM running LEFT JOIN (
            tasks JOIN reports ON reports.container = tasks.container AND reports.reported_at > now() - :silent
        ) ON tasks.job = running.job AND tasks.index < coalesce(CAST(running.config->>'task_count' AS integer), 1)
        WHERE running.asks_for_tasks AND NOT running.stopping
        GROUP BY running.job
    ), changes AS (
        SELECT CASE
            WHEN jobs.revision > coalesce(running.revision, 0) THEN
                (SELECT min(at) FROM history WHERE history.job = jobs.name
                    AND history.revision > coalesce(running.revision, 0))
            WHEN behind > 0 OR (heard < wanted AND tasks_of.committed_at > now() - :start) THEN tasks_of.committed_at
            END AS since
        FROM jobs LEFT JOIN running ON running.job = jobs.name LEFT JOIN tasks_of ON tasks_of.job = jobs.name
    ), ages AS (
        SELECT coalesce(greatest(extract(epoch FROM now() - since), 0), 0) AS age, since IS NOT NULL AS is_behind
        FROM changes
    )
    SELECT counted.*, coalesce(aged.p50, 0), coalesce(aged.p99, 0), coalesce(aged.worst, 0), aged.behind FROM (
        SELECT coalesce(sum(wanted), 0), coalesce(sum(up), 0), coalesce(sum(heard - up), 0) FROM tasks_of
    ) AS counted, (
        SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY age) AS p50,
            percentile_disc(0.99) WITHIN GROUP (ORDER BY age) AS p99, max(age) AS worst,
            count(*) FILTER (WHERE is_behind) AS behind
        FROM ages
    ) AS aged
    """
)


class FleetCounts(NamedTuple):
    """`tasks`: how many should run. The others are unknown: their containers are not heard, or nobody reports them.

    `age_*_seconds`: of the oldest change of a job that not all its tasks run, 0 for a job without one, over all jobs.
    """

    tasks: int
    tasks_running: int
    tasks_not_running: int
    age_p50_seconds: float
    age_p99_seconds: float
    age_seconds: float
    jobs_behind: int


def count_fleet(connection: Connection) -> FleetCounts:
    """Counts now. The cost grows with the number of tasks of the cell."""
    row = connection.execute(_COUNT, {"silent": SILENT, "start": START}).one()
    tasks, running, not_running = (int(count) for count in row[:3])
    p50, p99, worst = (float(age) for age in row[3:6])
    return FleetCounts(tasks, running, not_running, p50, p99, worst, int(row[6]))
