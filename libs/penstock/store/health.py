"""The facts from which `penstock.model.health` decides, read for many jobs at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, TextClause, text

from penstock.config.model import Slo
from penstock.config.topics import topic_and_cluster
from penstock.model.alerts import AlertKind
from penstock.model.health import AGAIN, JobFacts, Moment, TaskFacts, Verdict, verdict
from penstock.model.jobs import JobState
from penstock.store.package_use import USES_OF_PACKAGE, package_named
from penstock.store.rows import columns

# The state of a job, in this order:
# `deleting`     its tasks are being stopped, then the job is forgotten;
# `restoring`    as `rescaling`, from a savepoint: the recorded plan names it;
# `rescaling`    its tasks are stopped while its checkpoints are redistributed, by a plan that `/sync` shows;
# `rolling`      a new package goes out in waves, by a plan that `/sync` shows;
# `stopped`      the running configuration is the expected one, and wants no task to run;
# `synced`       the running configuration is the expected one;
# otherwise the sync state of this revision (`waiting`, `queued`, `failed`, `quarantined`), else `pending`.
# Without `:after` in the joins Postgres would read the other tables from their beginning for each page.
_JOBS = f"""
    WITH status AS (
        SELECT jobs.name AS job, jobs.owner, jobs.revision, jobs.restarts,
            running.revision AS running_revision, running.generation, running.committed_at,
            coalesce(running.rollout->>'revision' = running.revision::text, false) AS mixed,
            coalesce(running.stopping, false) AS stopping,
            CASE WHEN running.job IS NOT NULL
                THEN running.config->>'desired_state' IS DISTINCT FROM 'stopped' END AS wants_tasks,
            coalesce((running.config->>'task_count')::integer, 1) AS task_count,
            coalesce(running.max_lag_seconds, :max_lag_seconds) AS max_lag_seconds,
            coalesce(sync_state.detail, '') AS detail,
            CASE WHEN sync_state.revision >= jobs.revision THEN sync_state.failures ELSE 0 END AS failures,
            CASE
                WHEN jobs.deleting THEN 'deleting'
                WHEN sync_state.state = 'rescaling' AND jsonb_typeof(sync_state.plan->'restore') = 'object'
                    THEN 'restoring'
                WHEN sync_state.state IN ('rescaling', 'rolling') THEN sync_state.state
                WHEN running.revision >= jobs.revision AND running.config->>'desired_state' = 'stopped'
                    THEN 'stopped'
                WHEN running.revision >= jobs.revision THEN 'synced'
                WHEN sync_state.revision >= jobs.revision
                    AND sync_state.state IN ('waiting', 'queued', 'failed', 'quarantined') THEN sync_state.state
                ELSE 'pending'
            END AS state
        FROM jobs
            LEFT JOIN running ON running.job = jobs.name AND running.job > :after
            LEFT JOIN sync_state ON sync_state.job = jobs.name AND sync_state.job > :after
        WHERE jobs.name > :after AND {{where}}
    )
    SELECT {columns(JobFacts)} FROM status
    WHERE (CAST(:state AS text) IS NULL OR state = :state)
    ORDER BY job LIMIT :limit
"""
_NAMED = text(_JOBS.format(where="jobs.name = ANY(:jobs)"))
# A job needs a topic as it runs it, also before the last wave of a rollout, as it is to run it, and for a plan.
_KNOWN = """(
        SELECT running.config UNION ALL
        SELECT running.rollout->'before'->'config' WHERE running.rollout->>'revision' = running.revision::text UNION ALL
        SELECT expected.config FROM expected_configs expected WHERE expected.job = jobs.name UNION ALL
        SELECT sync_state.plan->'config' UNION ALL
        SELECT sync_state.plan->'restore'->'config' UNION ALL
        SELECT restores.config FROM restores WHERE restores.job = jobs.name) known"""
_FILTERS = f"""starts_with(jobs.name, :prefix)
    AND (CAST(:owner AS text) IS NULL OR jobs.owner = :owner)
    AND (CAST(:package AS jsonb) IS NULL OR EXISTS ({USES_OF_PACKAGE}))
    AND (CAST(:topic AS text) IS NULL OR jobs.name = ANY(:by_pattern) OR EXISTS (
        SELECT FROM {_KNOWN}
        WHERE (known.config->>'dead_letter_topic' = :topic AND CAST(:cluster AS text) IS NULL)
            OR EXISTS (
                SELECT FROM (SELECT known.config->'output' AS used UNION ALL
                    SELECT jsonb_path_query(known.config, '$.side_outputs.*.output') UNION ALL
                    SELECT jsonb_path_query(known.config, '$.inputs.*')) places
                WHERE used->>'topic' = :topic AND used->>'cluster' IS NOT DISTINCT FROM CAST(:cluster AS text))))"""
_PAGE = text(_JOBS.format(where=_FILTERS))
_MATCHING = text(
    f"""
    SELECT jobs.name FROM jobs LEFT JOIN running ON running.job = jobs.name
        LEFT JOIN sync_state ON sync_state.job = jobs.name
    WHERE {_FILTERS}
    """
)
_CRASHED = "SELECT job FROM task_crashes WHERE job > :after AND cardinality(crashed_at) >= :again"
_CRASHED_PAGE = text(_JOBS.format(where=f"{_FILTERS} AND jobs.name IN ({_CRASHED})"))
SIGHTINGS = """
    LEFT JOIN reports ON reports.container = tasks.container
    LEFT JOIN containers ON containers.name = tasks.container
"""
"""Joins to `tasks` what `REPORTED_AT`, `ALIVE_AT` and `FAILED_OVER` name: when the container of a task was heard."""
REPORTED_AT = "coalesce(reports.reported_at, tasks.reported_at)"
ALIVE_AT = "greatest(containers.heartbeat_at, containers.lease_renewed_at)"
FAILED_OVER = "coalesce(containers.state = 'lost', false)"
_TASKS = text(
    f"""
    SELECT {columns(TaskFacts)} FROM (SELECT tasks.job, tasks.index, tasks.container, tasks.state, tasks.revision,
        tasks.generation, tasks.epoch, tasks.crashes, tasks.error,
        {REPORTED_AT} AS reported_at, {ALIVE_AT} AS alive_at, {FAILED_OVER} AS failed_over,
        (progress->>'batch_id')::bigint AS batch_id,
        (progress->>'backlog_records')::bigint AS backlog_records,
        (progress->>'processed_rows_per_second')::float AS processed_rows_per_second,
        (progress->>'oldest_unread_seconds')::float AS oldest_unread_seconds,
        (progress->>'oldest_unread_at_most_seconds')::float AS oldest_unread_at_most_seconds,
        progress->>'held_back_by' AS held_back_by,
        (progress->>'held_back_seconds')::float AS held_back_seconds,
        (progress->>'silent_seconds')::float AS silent_seconds,
        progress->'input_problems'->>'{AlertKind.INPUT_UNREADABLE}' AS unreadable_input,
        progress->'input_problems'->>'{AlertKind.LATE_ROWS}' AS late_rows,
        task_crashes.crashed_at, task_crashes.revision AS crash_revision, task_crashes.error AS crash_error,
        task_crashes.task_run AS crash_run, running.task_run AS run
    FROM tasks {SIGHTINGS}
        LEFT JOIN running ON running.job = tasks.job AND running.revision = tasks.revision
        LEFT JOIN task_crashes ON task_crashes.job = tasks.job AND task_crashes.index = tasks.index
    WHERE tasks.job = ANY(:jobs)) AS facts
    ORDER BY job, index, container
    """
)
_MOMENT = text("SELECT now() AS now, max(reported_at) AS heard_at FROM reports")


class JobHealth(NamedTuple):
    """A job and what was decided about it."""

    facts: JobFacts
    verdict: Verdict


def read_moment(connection: Connection) -> Moment:
    """The store's time, and when it got the newest report."""
    return Moment(*connection.execute(_MOMENT).one())


def read_named(connection: Connection, jobs: Sequence[str]) -> list[JobHealth]:
    """Those of these jobs that exist, by name."""
    return _judged(connection, _NAMED, _values(len(jobs)) | {"jobs": list(jobs)})


def read_page(
    connection: Connection,
    *,
    limit: int,
    after: str,
    prefix: str,
    owner: str | None,
    state: JobState | None,
    package: str | None = None,
    topic: str | None = None,
    by_pattern: Sequence[str] = (),
    crashed: bool = False,
) -> list[JobHealth]:
    """At most `limit` jobs by name, from after `after`, that match all the filters given.

    `package`: `name/version`. `topic`: its full name. `by_pattern`: the jobs that read it by a pattern. `crashed`: only
    jobs of which some task crashed so often lately that it may crash again and again.
    """
    used = _used(package, topic, by_pattern)
    values = _values(limit, state, after) | used | {"prefix": prefix, "owner": owner, "again": AGAIN}
    return _judged(connection, _CRASHED_PAGE if crashed else _PAGE, values)


def users_of(
    connection: Connection, *, package: str | None, topic: str | None, by_pattern: Sequence[str] = ()
) -> set[str]:
    """The names of all jobs that match; filters as in `read_page`."""
    values = _used(package, topic, by_pattern) | {"prefix": "", "owner": None}
    return set(connection.execute(_MATCHING, values).scalars())


def _used(package: str | None, topic: str | None, by_pattern: Sequence[str]) -> dict[str, Any]:
    needed = None if package is None else package_named(*package.partition("/")[::2])
    name, cluster = (None, None) if topic is None else topic_and_cluster(topic)
    return {"package": needed, "topic": name, "cluster": cluster, "by_pattern": list(by_pattern)}


def _values(limit: int, state: JobState | None = None, after: str = "") -> dict[str, Any]:
    return {"limit": limit, "state": state, "after": after, "max_lag_seconds": Slo().max_lag_seconds}


def _judged(connection: Connection, statement: TextClause, values: Mapping[str, Any]) -> list[JobHealth]:
    rows = connection.execute(statement, values).mappings()
    jobs = [JobFacts(**{**row, "state": JobState(row["state"])}) for row in rows]
    reported: defaultdict[str, list[TaskFacts]] = defaultdict(list)
    for row in connection.execute(_TASKS, {"jobs": [job.job for job in jobs]}):
        reported[row.job].append(TaskFacts(*row))
    moment = read_moment(connection)
    return [JobHealth(job, verdict(job, reported[job.job], moment)) for job in jobs]
