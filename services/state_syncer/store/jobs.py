"""Reads the jobs that a round must decide about, with all their rows. No statement is for one job only.

Most jobs run what they should, and a round does not read them. Rollouts that go on are read by `rollouts`, without
configurations. Jobs that wait for room are read in the order in which they are admitted, as many as there is room for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, text

from penstock.model.reports import TaskState
from penstock.store.cluster import read_facts as read_sharding
from penstock.store.engine import present_number
from penstock.store.health import ALIVE_AT, read_moment
from penstock.store.running import UNASKED_STOP
from penstock.tasks.redistribution import SavepointName
from penstock.tasks.rollout import SeenTask
from penstock.tasks.selectors import selector_of
from services.state_syncer.decide.observe import (
    Assignment,
    ClusterView,
    JobsTasks,
    ListedTask,
    Presence,
    Sighting,
    Silent,
    observe_stopped,
    silent_ones,
    survey,
)
from services.state_syncer.decide.progress import PlanRow, Restore
from services.state_syncer.decide.quiet import Order, Quiet, observe_quiet
from services.state_syncer.decide.view import JobView, Running, Unusable
from services.state_syncer.decide.whereabouts import ALL_RUN, ReportedTask, Whereabouts, whereabouts
from services.state_syncer.store.plans import IS_ROLLOUT
from services.state_syncer.store.recorded import expected_of, with_recorded
from services.state_syncer.store.rollouts import read_wave_tasks
from services.state_syncer.store.states import sync_record

# So many jobs are read at once: few enough to be found by their keys.
PAGE = 500
# A row with more tasks than any job may have was changed by hand.
MOST_TASKS = 10_000

# Nothing was asked of the job since it was told to wait for room.
_WAITS_FOR_ROOM = "(s.state = 'queued' AND s.revision >= j.revision AND NOT j.deleting)"
# Every write raises the revision of its job. A sync state is written with the running row that it is about, so a job
# that is `synced` at its newest revision runs what it should: the running row need not be read in each round.
_IS_BEHIND = f"""(s.job IS NULL OR s.revision < j.revision OR s.state <> 'synced' OR j.deleting)
    AND ({_WAITS_FOR_ROOM}) IS NOT TRUE
    AND (s.plan IS NOT NULL AND {IS_ROLLOUT}) IS NOT TRUE"""

# `is_fresh`: `simple` may commit or queue the job.
_SURVEY = text(
    f"""
    SELECT coalesce(array_agg(name) FILTER (WHERE is_fresh), '{{}}') AS fresh,
        coalesce(array_agg(name) FILTER (WHERE NOT is_fresh), '{{}}') AS others
    FROM (
        SELECT j.name, NOT j.deleting
            AND (s.job IS NULL OR s.revision < j.revision AND s.state IN ('synced', 'queued')) AS is_fresh
        FROM jobs j LEFT JOIN sync_state s ON s.job = j.name
        WHERE {_IS_BEHIND}
    ) behind
    """
)
# `synced`, but somebody else changed the running row, or a backup had none: what the decision about a job looks at.
_READ_DRIFTED = text(
    """
    SELECT j.name
    FROM jobs j JOIN sync_state s ON s.job = j.name LEFT JOIN running r ON r.job = j.name
    WHERE s.state = 'synced' AND s.revision >= j.revision AND NOT j.deleting AND s.plan IS NULL
        AND (r.job IS NULL OR r.revision < j.revision OR r.restarts < j.restarts OR r.stopping
            OR r.rollout IS NOT NULL OR r.quiescing_commit = r.commit_number)
    """
)
_ALL = text("SELECT CAST('{}' AS text[]) AS fresh, coalesce(array_agg(name), '{}') AS others FROM jobs")

# First those that come first: by priority, then the oldest write, then by name. Rescales have a limit of their own.
_READ_QUEUE = text(
    f"""
    WITH waiting AS MATERIALIZED (
        SELECT j.name, s.change_kind = 'rescale' AS rescales, coalesce(e.priority, 0) AS priority, j.revision
        FROM sync_state s
            JOIN jobs j ON j.name = s.job
            LEFT JOIN expected_configs e ON e.job = s.job
        WHERE s.state = 'queued' AND {_WAITS_FOR_ROOM}
    )
    (SELECT name FROM waiting WHERE rescales ORDER BY priority DESC, revision, name COLLATE "C" LIMIT :rescales)
    UNION ALL
    (SELECT name FROM waiting WHERE NOT rescales ORDER BY priority DESC, revision, name COLLATE "C" LIMIT :rollouts)
    """
)

# A stored configuration that is older than the newest write of a layer, or on another basis, is not the merge: the
# layers are merged anew.
_READ = text(
    """
    SELECT j.name, j.revision, j.restarts, j.deleting,
        r.config AS running_config, r.digests AS running_digests, r.revision AS running_revision, r.generation,
        r.restarts AS running_restarts, r.stopping, r.started, r.commit_number, r.rollout, r.first_generation,
        r.asks_for_tasks AS runs,
        coalesce(r.quiescing_commit = r.commit_number, false) AS quiescing,
        CASE WHEN r.level_commit = r.commit_number THEN r.level_ms END AS level_ms,
        EXISTS (SELECT FROM proven p WHERE p.job = r.job AND p.code = code_of(CASE
            WHEN r.rollout->>'revision' = r.revision::text THEN r.rollout->'before'->'config' ELSE r.config END)
        ) AS is_proven,
        s.plan, s.rollout_order, GREATEST(r.generation, r.newest_generation) AS newest_generation,
        s.state, s.detail, s.revision AS sync_revision, s.change_kind, s.changed_fields, s.failures, s.next_attempt_at,
        coalesce(f.generation, 0) AS forgotten_generation,
        e.config AS merged, e.digests,
        CASE WHEN e.job IS NULL THEN (
            SELECT array_agg(l.config ORDER BY n.rank) FROM expected_layers l JOIN layers n ON n.name = l.layer
            WHERE l.job = j.name AND l.config IS NOT NULL) END AS layers
    FROM jobs j
    LEFT JOIN running r ON r.job = j.name
    LEFT JOIN sync_state s ON s.job = j.name
    LEFT JOIN forgotten f ON f.job = j.name
    LEFT JOIN expected_configs e ON e.job = j.name AND e.basis = :basis
        AND e.revision >= (SELECT max(l.revision) FROM expected_layers l WHERE l.job = j.name)
    WHERE j.name = ANY(:names)
    """
)

_READ_CONTAINERS = text(
    f"""
    SELECT containers.name, containers.incarnation, containers.state = 'live' AS live,
        reports.incarnation AS reported_incarnation, reports.commit_number, reports.reported_at, {ALIVE_AT} AS alive_at
    FROM containers LEFT JOIN reports ON reports.container = containers.name
    """
)
_READ_OWNERS = text("SELECT shard, container FROM assignment")
_READ_HOLDERS = text("SELECT DISTINCT job, container FROM tasks WHERE job = ANY(:jobs)")
_READ_HELD = text("SELECT job, container, index FROM tasks WHERE job = ANY(:jobs)")
_READ_STOPPING = text("SELECT job FROM running WHERE stopping")
_READ_RESTORES = text("SELECT job, number, savepoint, savepoint_job, savepoint_name, generation, config FROM restores")
_READ_RESCALED = text(
    """
    SELECT job, container, index AS number, state, crashes, progress->'quiesced' AS quiesced,
        progress->'level_ms' AS level_ms, progress->'watermark_ms' AS watermark_ms,
        progress->'caught_up' AS caught_up, progress->'backlog_records' AS backlog_records,
        progress->'processed_rows_per_second' AS rows_per_second, progress->'level_records' AS level_records,
        progress->>'silent_seconds' IS NOT NULL AS is_silent
    FROM tasks WHERE job IN (SELECT job FROM sync_state WHERE plan->>'step' IN ('copy_state', 'quiesce'))
    """
)
_ANY_RESCALED = text(
    """
    SELECT EXISTS (SELECT FROM running WHERE quiescing_commit = commit_number)
        OR EXISTS (SELECT FROM sync_state WHERE plan->>'step' = 'copy_state')
    """
)


class Survey(NamedTuple):
    """The names of the jobs that a round must look at: those that `simple` may commit or queue, and the others."""

    fresh: Sequence[str]
    others: Sequence[str]


class Facts(NamedTuple):
    """What belongs to the jobs beside their rows. `held`: the tasks of jobs that are being stopped; `rescaled`: of jobs
    that are quiesced, or whose state is copied. `cluster` None: there are no such jobs."""

    held: Mapping[str, Sequence[ListedTask]]
    rescaled: Mapping[str, Sequence[ReportedTask]]
    cluster: ClusterView | None
    restores: Mapping[str, Restore | Unusable]


def read_survey(connection: Connection, *, all_jobs: bool) -> Survey:
    """The jobs to read: those that are not `synced` at their newest revision, or are being deleted; or all."""
    return Survey(*connection.execute(_ALL if all_jobs else _SURVEY).one())


def read_drifted(connection: Connection) -> list[str]:
    """The `synced` jobs whose running rows do not agree with that. Reads all running rows."""
    return list(connection.execute(_READ_DRIFTED).scalars())


def read_queue(connection: Connection, *, rescales: int, rollouts: int) -> list[str]:
    """The jobs that come next, at most so many of those that wait for a rescale and for a rollout."""
    values = {"rescales": max(0, rescales), "rollouts": max(0, rollouts)}
    return list(connection.execute(_READ_QUEUE, values).scalars())


def read_facts(connection: Connection) -> Facts:
    """What `read_views` needs beside the rows."""
    held = _read_held(connection, list(connection.execute(_READ_STOPPING).scalars()))
    is_rescaling = bool(connection.execute(_ANY_RESCALED).scalar_one())
    rescaled = _read_rescaled(connection) if is_rescaling else {}
    cluster = _read_cluster(connection) if held or is_rescaling else None
    return Facts(held, rescaled, cluster, _read_restores(connection))


def read_views(connection: Connection, names: Sequence[str], basis: str, facts: Facts) -> Iterator[JobView]:
    """The jobs of these names. Merged configurations are those stored on `basis`."""
    for start in range(0, len(names), PAGE):
        rows = connection.execute(_READ, {"basis": basis, "names": names[start : start + PAGE]}).all()
        rolling = [row.name for row in rows if (plan := _plan(row)) is not None and plan.is_rollout]
        tasks = read_wave_tasks(connection, rolling)
        for row in rows:
            yield _whole_view(row, facts, tasks.get(row.name, {}))


def read_holders(connection: Connection, jobs: Sequence[str]) -> dict[str, set[str]]:
    """For each of the jobs: the containers whose newest report has a task of it."""
    holders: dict[str, set[str]] = {job: set() for job in jobs}
    if holders:
        for job, container in connection.execute(_READ_HOLDERS, {"jobs": list(holders)}):
            holders[job].add(container)
    return holders


def _read_held(connection: Connection, jobs: Sequence[str]) -> dict[str, list[ListedTask]]:
    held: dict[str, list[ListedTask]] = {job: [] for job in jobs}
    if held:
        for job, container, number in connection.execute(_READ_HELD, {"jobs": list(held)}):
            held[job].append(ListedTask(container, number))
    return held


def _whole_view(row: Row[Any], facts: Facts, tasks: Mapping[int, SeenTask]) -> JobView:
    """A job whose sync state this version cannot read is left as it is. Nothing is written about it either: a write
    names the state that it replaces."""
    try:
        return with_recorded(_view(row, facts), row.rollout, _plan(row), tasks, row.rollout_order)
    except ValueError as error:
        unusable = Unusable(f"its sync state cannot be read: {error}", "state")
        return JobView(row.name, row.revision, row.restarts, False, None, expected=unusable)


def _view(row: Row[Any], facts: Facts) -> JobView:
    restore = facts.restores.get(row.name)
    return JobView(
        row.name,
        row.revision,
        row.restarts,
        row.deleting,
        sync_record(row),
        expected=restore if isinstance(restore, Unusable) else expected_of(row.merged, row.layers or ()),
        running=_running(row),
        last_generation=row.forgotten_generation,
        presence=_presence(row, facts),
        silent=_silent(row, facts),
        quiet=_quiet(row, facts),
        where=_where(row, facts),
        restore=None if isinstance(restore, Unusable) else restore,
        digests=row.digests or {},
    )


def _plan(row: Row[Any]) -> PlanRow | None:
    return None if row.plan is None else PlanRow(row.plan, row.newest_generation, row.deleting, bool(row.runs))


def _running(row: Row[Any]) -> Running | None:
    if row.running_config is None:
        return None
    return Running(
        row.running_config,
        row.running_revision,
        row.generation,
        row.running_restarts,
        row.stopping,
        row.started,
        row.commit_number,
        digests=row.running_digests,
        first_generation=row.first_generation,
        is_proven=row.is_proven,
        quiescing=row.quiescing,
        level_ms=row.level_ms,
    )


def _presence(row: Row[Any], facts: Facts) -> Presence:
    if facts.cluster is None or not row.stopping:
        return Presence.UNKNOWN
    return observe_stopped(facts.cluster, facts.held.get(row.name, ()), row.commit_number, _tasks_of(row))


def _silent(row: Row[Any], facts: Facts) -> tuple[Silent, ...]:
    if facts.cluster is None or not row.stopping:
        return ()
    return silent_ones(facts.cluster, facts.held.get(row.name, ()), row.commit_number, _tasks_of(row))


def _quiet(row: Row[Any], facts: Facts) -> Quiet:
    if facts.cluster is None or not row.quiescing:
        return Quiet()
    order = Order(row.commit_number, row.level_ms)
    return observe_quiet(facts.cluster, facts.rescaled.get(row.name, ()), order, _tasks_of(row))


def _where(row: Row[Any], facts: Facts) -> Whereabouts:
    plan = _plan(row)
    if facts.cluster is None or plan is None or not plan.is_copying:
        return ALL_RUN
    return whereabouts(facts.cluster, facts.rescaled.get(row.name, ()), _tasks_of(row))


def _tasks_of(row: Row[Any]) -> JobsTasks | None:
    """The tasks that the running configuration asks for; None when it cannot be read."""
    config = row.running_config
    count = _number(config.get("task_count")) if isinstance(config, dict) else None
    return None if count is None or not 0 < count <= MOST_TASKS else JobsTasks(row.name, count, selector_of(config))


def _read_rescaled(connection: Connection) -> dict[str, list[ReportedTask]]:
    tasks: dict[str, list[ReportedTask]] = {}
    for row in connection.execute(_READ_RESCALED):
        tasks.setdefault(row.job, []).append(_reported(row))
    return tasks


def _reported(row: Row[Any]) -> ReportedTask:
    """What is not as a task says it is unknown."""
    return ReportedTask(
        row.container,
        row.number,
        _state_of(row.state),
        quiesced=row.quiesced is True,
        level_ms=_number(row.level_ms),
        watermark_ms=_number(row.watermark_ms),
        caught_up=row.caught_up is True,
        backlog_records=_number(row.backlog_records),
        crashes=row.crashes,
        rows_per_second=row.rows_per_second if isinstance(row.rows_per_second, int | float) else None,
        is_silent=row.is_silent is True,
        level_records=_number(row.level_records),
    )


def _state_of(state: str) -> TaskState:
    """A task in a state that this version does not know may be in a batch."""
    try:
        return TaskState(state)
    except ValueError:
        return TaskState.RUNNING


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _read_cluster(connection: Connection) -> ClusterView:
    """The caller's transaction sees one moment: containers, reports, owners and sharding belong together."""
    sightings = (Sighting(*row) for row in connection.execute(_READ_CONTAINERS))
    owners = {row.shard: row.container for row in connection.execute(_READ_OWNERS)}
    unasked_stop = present_number(connection, UNASKED_STOP)
    assignment = Assignment(owners, read_sharding(connection).sharding, unasked_stop)
    return survey(sightings, assignment, read_moment(connection))


def _read_restores(connection: Connection) -> dict[str, Restore | Unusable]:
    """The restores that were asked for and are not done, by job."""
    return {row.job: _restore(row) for row in connection.execute(_READ_RESTORES)}


def _restore(row: Row[Any]) -> Restore | Unusable:
    """One that this version cannot read leaves the job as it is, with the reason."""
    try:
        savepoint = SavepointName(job=row.savepoint_job, name=row.savepoint_name, number=row.savepoint)
        return Restore(number=row.number, savepoint=savepoint, generation=row.generation, config=row.config)
    except ValueError as error:
        return Unusable(f"its recorded restore cannot be read: {error}", "restore")
