"""What was committed above a commit number: rows of the running table, and jobs that were forgotten."""

from __future__ import annotations

from sqlalchemy import Connection, text

from penstock.store.cluster import read_facts
from services.task_service.store.rows import Changes, StoredTemplate

# One statement reads one moment, so no commit up to the counter's value is missed. `forgotten` is never purged (it also
# keeps the generations that were used), so a delta can name every removal.
_CHANGES = text(
    """
    SELECT job, config::text AS config, revision, generation, restarts, stopping, commit_number,
        rollout::text AS rollout
    FROM running WHERE commit_number > :after
    UNION ALL
    SELECT job, NULL, NULL, NULL, NULL, NULL, commit_number, NULL FROM forgotten WHERE commit_number > :after
    UNION ALL
    SELECT NULL, NULL, NULL, NULL, NULL, NULL, value, NULL FROM counters WHERE name = 'running_commit'
    """
)


def read_changes(connection: Connection, *, after: int = -1) -> Changes:
    """Everything that was committed above `after`; by default all."""
    rows = connection.execute(_CHANGES, {"after": after}).all()
    return Changes(
        commit_number=next(row.commit_number for row in rows if row.job is None),
        shard_count=read_facts(connection).sharding.count,
        stored=tuple(StoredTemplate._make(row) for row in rows if row.config is not None),
        removed={row.job: row.commit_number for row in rows if row.job is not None and row.config is None},
    )
