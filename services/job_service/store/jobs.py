"""Jobs with their state: expected, running and reported side by side.

The state of a job, in this order:
`deleting`     its tasks are being stopped, then the job is forgotten;
`rescaling`    its tasks are stopped while its checkpoints are redistributed, by a plan that `/sync` shows;
`rolling`      a new package goes out in waves, by a plan that `/sync` shows;
`stopped`      the running configuration is the expected one, and wants no task to run;
`synced`       the running configuration is the expected one;
otherwise the sync state of this revision (`waiting`, `queued`, `failed`, `quarantined`), else `pending`.

A job is converged when it is not being deleted, the running configuration is the expected one, and containers that are
not lost report all its tasks as running under its revision and generation. A stopped job is converged when no such
container reports a task of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, text

from penstock.model.jobs import JobState
from penstock.store.rows import read_all, read_first
from penstock.wire.jobs import JobSummary

_STATUS = """
    WITH status AS (
        SELECT jobs.name, jobs.owner, jobs.revision, jobs.restarts,
            running.revision AS running_revision, running.generation,
            running.rollout IS NOT NULL AND running.rollout->>'revision' = running.revision::text AS mixed,
            CASE
                WHEN jobs.deleting THEN 'deleting'
                WHEN sync_state.state IN ('rescaling', 'rolling') THEN sync_state.state
                WHEN running.revision >= jobs.revision AND running.config->>'desired_state' = 'stopped'
                    THEN 'stopped'
                WHEN running.revision >= jobs.revision THEN 'synced'
                WHEN sync_state.revision >= jobs.revision
                    AND sync_state.state IN ('waiting', 'queued', 'failed', 'quarantined') THEN sync_state.state
                ELSE 'pending'
            END AS state,
            coalesce((running.config->>'task_count')::integer, 1) AS task_count
        FROM jobs
            LEFT JOIN running ON running.job = jobs.name
            LEFT JOIN sync_state ON sync_state.job = jobs.name
        WHERE {where}
    ), picked AS (
        SELECT * FROM status
        WHERE (CAST(:state AS text) IS NULL OR state = :state)
        ORDER BY name LIMIT :limit
    )
    SELECT name AS job, owner, revision, restarts, state, running_revision, generation,
        CASE state
            WHEN 'synced' THEN NOT mixed AND task_count = (
                SELECT count(DISTINCT tasks.index) FROM tasks
                WHERE tasks.job = name AND tasks.state = 'running' AND tasks.index < task_count
                    AND tasks.revision = running_revision AND tasks.generation = picked.generation
                    AND NOT EXISTS (SELECT FROM containers
                                    WHERE containers.name = tasks.container AND containers.state = 'lost'))
            WHEN 'stopped' THEN NOT EXISTS (
                SELECT FROM tasks
                WHERE tasks.job = picked.name
                    AND NOT EXISTS (SELECT FROM containers
                                    WHERE containers.name = tasks.container AND containers.state = 'lost'))
            ELSE false
        END AS converged
    FROM picked ORDER BY name
"""
_ONE = text(_STATUS.format(where="jobs.name = :name"))
_PAGE = text(
    _STATUS.format(
        where="""jobs.name > :after AND starts_with(jobs.name, :prefix)
            AND (CAST(:owner AS text) IS NULL OR jobs.owner = :owner)
            AND (CAST(:package AS text) IS NULL OR EXISTS (
                SELECT FROM (SELECT running.config UNION ALL
                             SELECT expected.config FROM expected_configs expected WHERE expected.job = jobs.name) known
                WHERE known.config->'package'->>'name' || '/' || (known.config->'package'->>'version') = :package))"""
    )
)
_RELEASE = text(
    """
    UPDATE sync_state SET state = 'pending', detail = 'released', failures = 0, next_attempt_at = NULL,
        revision = :revision
    WHERE job = :name AND state IN ('quarantined', 'failed')
    """
)


def status(connection: Connection, name: str) -> JobSummary | None:
    """One job; None when there is none of this name."""
    return read_first(connection, JobSummary, _ONE, {"name": name, "state": None, "limit": 1})


def page(
    connection: Connection,
    *,
    limit: int,
    after: str = "",
    prefix: str = "",
    owner: str | None = None,
    state: JobState | None = None,
    package: str | None = None,
) -> Sequence[JobSummary]:
    """At most `limit` jobs by name, from after `after`, that match all the filters given."""
    parameters = {"limit": limit, "after": after, "prefix": prefix, "owner": owner, "state": state, "package": package}
    return read_all(connection, JobSummary, _PAGE, parameters)


def release(connection: Connection, name: str, revision: int) -> bool:
    """Lets the State Syncer try the job again at `revision`; False if the job was neither quarantined nor failed."""
    return connection.execute(_RELEASE, {"name": name, "revision": revision}).rowcount > 0
