"""The size of jobs' keyed state, as their tasks reported it. It determines the memory of the host for a host task."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, text

_BYTES_PER_ROW = 100
_MOST_BYTES = 2**62

# The samples outlive the stop of the tasks. A task that finished a batch and reported no state has none; RocksDB
# reports memory, not disk, so its rows count, too. A restore goes on from a savepoint, whose size is recorded. No
# number of one job may be too large for the statement, which is about all.
_STATE_BYTES = text(
    f"""
    WITH asked AS (
        SELECT r.job, s.plan->'restore'->'savepoint' AS restored,
            CASE jsonb_typeof(r.config->'task_count') WHEN 'number' THEN CAST(r.config->'task_count' AS numeric)
                END AS task_count
        FROM running r LEFT JOIN sync_state s ON s.job = r.job WHERE r.job = ANY(:jobs)
    ), newest AS (
        SELECT DISTINCT ON (m.job, m.index) m.job, m.index,
            GREATEST(
                coalesce(m.state_memory_bytes, 0), CAST(coalesce(m.state_rows, 0) AS numeric) * {_BYTES_PER_ROW}
            ) AS bytes
        FROM task_metrics m JOIN asked a ON a.job = m.job AND m.index < a.task_count
        WHERE m.minute > now() - interval '1 hour' AND (m.batch_seconds IS NOT NULL OR m.state_rows IS NOT NULL)
        ORDER BY m.job, m.index, m.minute DESC
    )
    SELECT a.job, CAST(LEAST(sum(n.bytes), {_MOST_BYTES}) AS bigint) AS bytes
    FROM asked a JOIN newest n ON n.job = a.job
    WHERE coalesce(a.restored, 'null') = 'null' GROUP BY a.job, a.task_count HAVING count(*) = a.task_count
    UNION ALL
    SELECT a.job, p.bytes FROM asked a
    JOIN savepoints p ON p.job = a.restored->>'job' AND p.name = a.restored->>'name' WHERE p.bytes IS NOT NULL
    """
)


def read_state_bytes(connection: Connection, jobs: Sequence[str]) -> dict[str, int]:
    """The state size of each job whose tasks all reported theirs. For a job that is being restored: the size of the
    savepoint."""
    return {row.job: row.bytes for row in connection.execute(_STATE_BYTES, {"jobs": list(jobs)})} if jobs else {}
