"""What the tasks of jobs report of their backlog and rates, for many jobs at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from sqlalchemy import Connection, text

from penstock.tasks.lag import Flow, JobFlow, job_flow
from penstock.wire.jobs import JobSummary

Summary = TypeVar("Summary", bound=JobSummary)

# A task that two containers report is not known: it moves. The progress of a task that does not run is old.
_FLOWS = text(
    """
    SELECT running.job, coalesce((running.config->>'task_count')::integer, 1) AS task_count, tasks.index,
        CAST(min(tasks.progress->>'backlog_records') AS double precision) AS backlog,
        CAST(min(tasks.progress->>'processed_rows_per_second') AS double precision) AS processed,
        CAST(min(tasks.progress->>'input_rows_per_second') AS double precision) AS read,
        CAST(min(tasks.progress->>'oldest_unread_seconds') AS double precision) AS oldest,
        CAST(min(tasks.progress->>'oldest_unread_at_most_seconds') AS double precision) AS oldest_at_most
    FROM running JOIN tasks ON tasks.job = running.job
        AND tasks.index < coalesce((running.config->>'task_count')::integer, 1)
    WHERE running.job = ANY(:jobs)
    GROUP BY running.job, task_count, tasks.index
    HAVING count(*) = 1 AND min(tasks.state) = 'running'
    """
)


def with_lags(connection: Connection, jobs: Sequence[Summary]) -> list[Summary]:
    """The same jobs with backlog, lag and rate; what some task of a job does not report stays None."""
    found: dict[str, list[Flow]] = {}
    counts: dict[str, int] = {}
    for row in connection.execute(_FLOWS, {"jobs": [job.job for job in jobs]}):
        found.setdefault(row.job, []).append(Flow(row.backlog, row.processed, row.read, row.oldest, row.oldest_at_most))
        counts[row.job] = row.task_count
    flows = {job: job_flow(each, counts[job]) for job, each in found.items()}
    return [_with(job, flows[job.job]) if job.job in flows else job for job in jobs]


def _with(job: Summary, flow: JobFlow) -> Summary:
    return job.model_copy(
        update={
            "backlog_records": flow.backlog_records,
            "lag_seconds": flow.lag_seconds,
            "rows_per_second": flow.read_per_second,
        }
    )
