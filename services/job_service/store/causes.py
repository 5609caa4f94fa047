"""Reads what may explain why a job is not healthy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from pydantic import ValidationError
from sqlalchemy import Connection, text

from penstock.config.merge import merge
from penstock.config.model import JobConfig
from penstock.model.alerts import AlertKind
from penstock.model.health import SILENT, Moment
from penstock.model.job_metrics import METRICS_BY_NAME, MINUTE
from penstock.model.jobs import JobState, StoredJob, layer_configs
from penstock.model.reports import ErrorClass
from penstock.model.states import failure_before
from penstock.model.traffic import measured
from penstock.store import cluster
from penstock.store.health import read_moment, read_named
from penstock.store.job_minutes import read_job_minutes
from penstock.store.rows import columns, read_all
from penstock.tasks.rollout import Rejected
from services.job_service import views
from services.job_service.causes.crashes import JUST_NOW
from services.job_service.causes.errors import ENDED_HOST
from services.job_service.causes.facts import (
    Attempts,
    ContainerEvidence,
    Crashes,
    Elsewhere,
    Facts,
    Gone,
    Minute,
    UnderWay,
    Upstream,
)
from services.job_service.cell_facts import ContainerFacts
from services.job_service.explain import DEFAULT_LAYER, explain
from services.job_service.flows import topics_read_by
from services.job_service.store import history, overview
from services.job_service.store.cell import read_cell
from services.job_service.store.flows import written
from services.job_service.store.layers import all_layers

_MOST_CHANGES = 20
_MOST_ALERTS = 200
_MOST_UPSTREAM = 20
_LOOKED_BACK = timedelta(hours=3)
_MIN_MEASURED_SECONDS = 30.0
_OF_CELL = (AlertKind.UNPLACEABLE.value, AlertKind.SCALING_FROZEN.value)
_ALIVE_SECONDS = 3 * SILENT.total_seconds()
_FAILED = (JobState.FAILED.value, JobState.QUARANTINED.value)
# In the order of the fields of Minute.
_METRICS = (
    "lag_seconds",
    "input_rows_per_second",
    "busy_share",
    "crashes",
    "restarts",
    f"errors_{ErrorClass.HOST}",
    f"errors_{ErrorClass.OUT_OF_MEMORY}",
)

_CRASHES = text(f"SELECT {columns(Crashes)} FROM task_crashes WHERE job = :job ORDER BY index")
# A task that crashed and has finished no batch since, or whose host says nothing.
_IS_BAD = """(tasks.crashes > 0 AND (tasks.state <> 'running' OR tasks.progress->>'batch_id' IS NULL)
    OR tasks.progress->>'silent_seconds' IS NOT NULL)"""
_CONTAINERS = text(
    f"""
    SELECT {columns(ContainerEvidence)} FROM (
        SELECT containers.name, containers.state = 'live' AS is_live, containers.availability,
            containers.availability_reason, containers.registered_at, count(tasks.job) AS others,
            count(tasks.job) FILTER (WHERE {_IS_BAD}) AS bad_others,
            count(DISTINCT tasks.job) FILTER (WHERE {_IS_BAD}) AS bad_jobs,
            coalesce(array_agg(DISTINCT coalesce(substring(tasks.error FROM CAST(:ended AS text)), ''))
                FILTER (WHERE {_IS_BAD}), '{{}}') AS ended_hosts
        FROM containers LEFT JOIN tasks ON tasks.container = containers.name AND tasks.job <> :job
        WHERE containers.name = ANY(:names) GROUP BY containers.name
    ) AS seen ORDER BY name
    """
)
_ELSEWHERE = text(
    f"SELECT count(*) AS tasks, count(*) FILTER (WHERE {_IS_BAD}) AS bad FROM tasks WHERE container <> ALL(:names)"
)
_OWNERS = text("SELECT shard, container, moved_at FROM assignment WHERE shard = ANY(:shards)")
_WRITERS = text(
    """
    SELECT job, min(topic) AS writes FROM flows, unnest(array_append(side_topics, writes)) AS topic
    WHERE (writes = ANY(:topics) OR side_topics && CAST(:topics AS text[])) AND topic = ANY(:topics) AND job <> :job
    GROUP BY job ORDER BY job LIMIT :limit
    """
)


class _Placed(NamedTuple):
    """Where the tasks are, and should be."""

    tasks: Sequence[overview.ReportedTask]
    owners: Mapping[int, str | None]
    moved_at: Mapping[int, datetime]
    shards: frozenset[int]

    @property
    def containers(self) -> list[str]:
        """Those that run the tasks, and those that should."""
        owners = {owner for owner in self.owners.values() if owner is not None}
        return sorted({task.container for task in self.tasks} | owners)


def read_facts(connection: Connection, stored: StoredJob) -> Facts:
    """All that is known of a job that exists; of one that is well only that, and its open alerts.

    Give a connection that sees one moment.
    """
    job = stored.name
    (found,) = read_named(connection, [job])
    moment = read_moment(connection)
    judged = Facts(found.facts, found.verdict, moment)
    if judged.is_well:
        return replace(judged, alerts=overview.alerts_about(connection, job, [], [], limit=_MOST_ALERTS))
    running, sync = overview.running_job(connection, job), overview.sync(connection, job)
    layers = layer_configs(stored, all_layers(connection))
    leaves = explain(layers)
    config = merge(layers) if running is None else running.config
    placed = _placed(connection, job, running)
    names = placed.containers
    containers = read_all(connection, ContainerEvidence, _CONTAINERS, {"job": job, "names": names, "ended": ENDED_HOST})
    cell = read_cell(connection)
    decisions = overview.decisions_page(connection, job, limit=1)
    return replace(
        judged,
        config=config,
        settings=[leaf for leaf in leaves if leaf.layer != DEFAULT_LAYER],
        attempts=None if sync is None else _attempts(sync, stored),
        under_way=None if sync is None else _under_way(sync),
        rejected=None if sync is None or sync.rejected is None else Rejected.model_validate(sync.rejected),
        changes=history.page(connection, job, limit=_MOST_CHANGES).rows,
        tasks=placed.tasks,
        crashes=read_all(connection, Crashes, _CRASHES, {"job": job}),
        owners=placed.owners,
        moved_at=placed.moved_at,
        shards=placed.shards,
        containers=containers,
        elsewhere=_elsewhere(connection, containers),
        gone=list(_gone(cell.containers, moment)),
        is_open=any(each.is_live and each.availability == "open" for each in cell.containers),
        is_alive=any(each.heartbeat_age_seconds <= _ALIVE_SECONDS for each in cell.containers),
        alerts=overview.alerts_about(connection, job, names, _OF_CELL, limit=_MOST_ALERTS),
        rounds=cell.rounds,
        leaders=cell.leaders,
        upstream=_upstream(connection, job, config),
        key_group_rates=_key_group_rates(placed.tasks, config, moment),
        minutes=_minutes(connection, job, moment),
        decision=next(iter(decisions), None),
    )


def _gone(containers: Sequence[ContainerFacts], moment: Moment) -> Iterator[Gone]:
    """Those that were lost, or began, just now."""
    for each in containers:
        heard_at = moment.now - timedelta(seconds=each.heartbeat_age_seconds)
        at = each.registered_at if each.is_live else heard_at
        if at is not None and moment.now - at <= JUST_NOW:
            yield Gone(each.name, at, each.is_live)


def _attempts(sync: overview.SyncRow, stored: StoredJob) -> Attempts | None:
    """A newer write has not been tried yet."""
    if not sync.failures or sync.revision < stored.revision:
        return None
    plan = sync.plan if isinstance(sync.plan, dict) else {}
    before = str(plan.get("failed_before") or "") or failure_before(sync.detail)
    reason = sync.detail if sync.state in _FAILED else before
    return Attempts(sync.failures, tuple(sync.changed_fields or ()), reason, sync.next_attempt_at)


def _under_way(sync: overview.SyncRow) -> UnderWay | None:
    """Of a plan that this release cannot read nothing is known."""
    plan = sync.plan if isinstance(sync.plan, dict) else {}
    if plan.get("kind") != "rescale" or sync.state != JobState.RESCALING.value:
        return None
    try:
        step, step_at = str(plan["step"]), datetime.fromisoformat(plan["step_at"])
        fields, revision = tuple(map(str, plan["fields"])), int(plan["revision"])
    except (KeyError, TypeError, ValueError):
        return None
    return UnderWay(step, step_at, fields, revision, sync.detail, plan.get("restore") is not None)


def _elsewhere(connection: Connection, containers: Sequence[ContainerEvidence]) -> Elsewhere:
    """Counts all tasks, so only when there is something to compare with."""
    if not any(container.bad_others for container in containers):
        return Elsewhere(0, 0)
    names = [container.name for container in containers]
    return Elsewhere(*connection.execute(_ELSEWHERE, {"names": names}).one())


def _placed(connection: Connection, job: str, running: overview.RunningRow | None) -> _Placed:
    tasks = overview.reported_tasks(connection, job)
    places = views.places(job, running, tasks, cluster.read_facts(connection).sharding)
    expected = {place.number: place.shard for place in places if place.expected and place.shard is not None}
    rows = {row.shard: row for row in connection.execute(_OWNERS, {"shards": sorted(set(expected.values()))})}
    owned = {index: rows[shard] for index, shard in expected.items() if shard in rows}
    owners = {index: owned[index].container if index in owned else None for index in expected}
    moved_at = {index: row.moved_at for index, row in owned.items()}
    return _Placed(tasks, owners, moved_at, frozenset(expected.values()))


def _upstream(connection: Connection, job: str, config: Mapping[str, Any]) -> list[Upstream]:
    """The jobs that write what this one reads."""
    topics = written(connection, topics_read_by(config))
    asked = {"topics": list(topics), "job": job, "limit": _MOST_UPSTREAM}
    writes = {row.job: row.writes for row in connection.execute(_WRITERS, asked)}
    healths = read_named(connection, list(writes)) if writes else []
    return [
        Upstream(each.facts.job, writes[each.facts.job], each.verdict.health, each.verdict.reason) for each in healths
    ]


def _key_group_rates(
    tasks: Sequence[overview.ReportedTask], config: Mapping[str, Any], moment: Moment
) -> Sequence[float | None]:
    """Unknown for a configuration that another release wrote and this one cannot read."""
    try:
        known = JobConfig.model_validate(config)
    except ValidationError:
        return ()
    return measured(tasks, known, moment.now, min_seconds=_MIN_MEASURED_SECONDS)


def _minutes(connection: Connection, job: str, moment: Moment) -> list[Minute]:
    metrics = [METRICS_BY_NAME[name] for name in _METRICS]
    found = read_job_minutes(connection, job, moment.now - _LOOKED_BACK, moment.now, metrics)
    values = zip(*(found.values[name] for name in _METRICS), strict=True)
    return [Minute(found.since + number * MINUTE, *each) for number, each in enumerate(values)]
