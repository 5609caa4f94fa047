"""What a round of the State Syncer reads, and the sync states it writes: set-based, never a statement a job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Connection, Row, TextClause, text

from penstock.store.plans import IS_ROLLOUT, PlanRow

_BATCH = 1000
# Up to so many jobs are read by their names, without going through all again.
_NAMED = 1000

# Most rollouts that one round looks at, one by one.
MOST_ROLLING = 1000

_BEHIND = f"""(r.job IS NULL OR s.job IS NULL OR r.revision < j.revision OR r.restarts < j.restarts OR r.stopping
            OR j.deleting OR s.state <> 'synced')
    AND (:full AND NOT j.deleting AND s.state = 'queued'
        AND s.revision >= j.revision AND r.restarts >= j.restarts) IS NOT TRUE
    AND ({IS_ROLLOUT} AND NOT j.deleting AND NOT j.name = ANY(:rolling)) IS NOT TRUE"""
_JOBS = "jobs j LEFT JOIN running r ON r.job = j.name LEFT JOIN sync_state s ON s.job = j.name"

# Drawn at random, so that each has its turn and none must be remembered.
_ROLLING = text(
    f"""
    SELECT drawn.job FROM (
        SELECT s.job FROM sync_state s WHERE s.plan IS NOT NULL AND {IS_ROLLOUT}
        ORDER BY random() LIMIT CAST(:most AS int)
    ) AS drawn JOIN running r ON r.job = drawn.job
    WHERE r.commit_number IS DISTINCT FROM CAST(:done AS bigint)
    """
)

# Three narrow columns of each table; `usual` are jobs that `penstock.store.simple_sync` may commit.
_SURVEY = text(
    f"""
    SELECT count(*) AS jobs, (array_agg(j.name))[1 : :limit] AS names,
        count(*) FILTER (WHERE NOT j.deleting
            AND (r.job IS NULL AND s.job IS NULL OR s.state IN ('synced', 'queued'))) AS usual,
        coalesce(bool_or(r.stopping), false) AS stopping
    FROM {_JOBS} WHERE {_BEHIND}
    """
)

# A stored configuration that is older than the newest write of a layer, or on another basis, is not the merge.
_READ = """
    WITH changed AS MATERIALIZED (
        SELECT j.name, j.revision, j.restarts, j.deleting FROM {jobs}
    )
    SELECT c.name, c.revision, c.restarts, c.deleting,
        r.config AS running_config, r.revision AS running_revision, r.generation, r.restarts AS running_restarts,
        r.stopping, r.started, r.commit_number, r.rollout,
        s.plan, GREATEST(r.generation, r.newest_generation) AS newest_generation,
        s.state, s.detail, s.revision AS sync_revision, s.change_kind, s.changed_fields, s.failures, s.next_attempt_at,
        f.generation AS forgotten_generation,
        m.config AS merged, CASE WHEN m.job IS NULL THEN layered.configs END AS configs
    FROM changed c
    LEFT JOIN running r ON r.job = c.name
    LEFT JOIN sync_state s ON s.job = c.name
    LEFT JOIN forgotten f ON f.job = c.name
    LEFT JOIN LATERAL (
        SELECT max(e.revision) AS revision,
            array_agg(e.config ORDER BY l.rank) FILTER (WHERE e.config IS NOT NULL) AS configs
        FROM expected_layers e JOIN layers l ON l.name = e.layer
        WHERE e.job = c.name
    ) layered ON true
    LEFT JOIN expected_configs m ON m.job = c.name AND m.basis = :basis AND m.revision >= layered.revision
    """
_READ_ALL = text(_READ.format(jobs="jobs j"))
_READ_BEHIND = text(_READ.format(jobs=f"{_JOBS} WHERE {_BEHIND}"))
_READ_NAMED = text(_READ.format(jobs="jobs j WHERE j.name = ANY(:names)"))

_CONTAINERS = text(
    """
    SELECT c.name, c.incarnation, c.state = 'live' AS live, r.incarnation AS reported_incarnation, r.commit_number
    FROM containers c LEFT JOIN reports r ON r.container = c.name
    """
)
_OWNERS = text("SELECT DISTINCT container FROM assignment WHERE container IS NOT NULL")
_HOLDERS = text("SELECT DISTINCT job, container FROM tasks WHERE job = ANY(:jobs)")
_STOPPING = text("SELECT job FROM running WHERE stopping")
_RANKS = text(
    """
    SELECT (SELECT json_object_agg(name, rank) FROM layers) AS present,
        (SELECT value FROM cluster WHERE key = 'synced_ranks') AS synced
    """
)
_SYNCED_RANKS = text(
    """
    INSERT INTO cluster (key, value) VALUES ('synced_ranks', CAST(:ranks AS jsonb))
    ON CONFLICT (key) DO UPDATE SET value = excluded.value
    """
)
_COUNTS = text("SELECT state, count(*) FROM sync_state GROUP BY state")

_RAISE = text(
    """
    INSERT INTO alerts AS held (kind, subject, message, details)
    SELECT 'quarantined', new.job, 'the job is quarantined: ' || new.detail,
        json_build_object('revision', new.revision, 'fields', new.changed_fields, 'failures', new.failures,
            'last_good_revision', r.revision, 'last_good_generation', r.generation)
    FROM json_to_recordset(CAST(:rows AS json)) AS new(
        job text, detail text, revision bigint, changed_fields text[], failures int)
    LEFT JOIN running r ON r.job = new.job
    ON CONFLICT (kind, subject) WHERE cleared_at IS NULL DO UPDATE SET
        message = excluded.message, details = excluded.details, times = held.times + 1, last_at = now()
    """
)
_CLEAR = text(
    """
    UPDATE alerts SET cleared_at = now()
    WHERE kind = 'quarantined' AND subject = ANY(:jobs) AND cleared_at IS NULL
    """
)

_COLUMNS = "job, state, detail, revision, change_kind, changed_fields, failures, next_attempt_at"
_RECORDS = """json_to_recordset(CAST(:rows AS json)) AS new(
        job text, state text, detail text, revision bigint, change_kind text, changed_fields text[], failures int,
        next_attempt_at timestamptz, seen_state text, seen_failures int)"""
_INSERT = text(
    f"""
    INSERT INTO sync_state ({_COLUMNS}) SELECT {_COLUMNS} FROM {_RECORDS} WHERE new.seen_state IS NULL
    ON CONFLICT (job) DO NOTHING
    """
)
# A release by an operator since the row was read is not overwritten: the next round sees it.
_UPDATE = text(
    f"""
    UPDATE sync_state AS held SET
        state = new.state, detail = new.detail, revision = new.revision, change_kind = new.change_kind,
        changed_fields = new.changed_fields, failures = new.failures, next_attempt_at = new.next_attempt_at,
        updated_at = now()
    FROM {_RECORDS}
    WHERE held.job = new.job AND held.state = new.seen_state AND held.failures = new.seen_failures
    """
)


class RunningRow(NamedTuple):
    """A row of the running table; `config` and `rollout` as JSON."""

    config: Mapping[str, Any]
    revision: int
    generation: int
    restarts: int
    stopping: bool
    started: bool
    commit_number: int
    rollout: Mapping[str, Any] | None = None


class SyncRow(NamedTuple):
    """A row of sync_state."""

    state: str
    detail: str
    revision: int
    change_kind: str
    changed_fields: tuple[str, ...]
    failures: int
    next_attempt_at: datetime | None


class Survey(NamedTuple):
    """How many jobs a round must look at, how many of them are new or were synced before, whether any is being
    stopped for good, and the names: of all of them, or of some. `full` as asked for; `rolling`: the jobs whose rollouts
    are looked at."""

    jobs: int
    usual: int
    stopping: bool
    names: tuple[str, ...]
    full: bool
    rolling: tuple[str, ...]


class JobRow(NamedTuple):
    """All that the store knows of a job that a round looks at.

    `merged`: the complete configuration that its layers give, as the Job Service stored it. Where it is None, `layers`
    has their configurations by rank, lowest first. `plan` is the recorded one.
    """

    job: str
    revision: int
    restarts: int
    deleting: bool
    merged: Mapping[str, Any] | None
    layers: tuple[Mapping[str, Any], ...]
    running: RunningRow | None
    sync: SyncRow | None
    forgotten_generation: int | None
    plan: PlanRow | None = None


class RanksRow(NamedTuple):
    """Layers to their ranks: as they are, and as all jobs were last merged with."""

    present: Mapping[str, int]
    synced: Mapping[str, int] | None

    @property
    def lowest_first(self) -> tuple[str, ...]:
        return tuple(sorted(self.present, key=lambda layer: self.present[layer]))


class ContainerRow(NamedTuple):
    """A container and its newest report, of whatever incarnation; None where it never reported."""

    name: str
    incarnation: str
    live: bool
    reported_incarnation: str | None
    commit_number: int | None


class SyncWrite(NamedTuple):
    """A sync state to be, and the one it was decided upon (None: the job had no row)."""

    job: str
    new: SyncRow
    seen: SyncRow | None


def survey(connection: Connection, *, full: bool = False, done: int | None = None) -> Survey:
    """The jobs whose running row is behind, that are being deleted or are not `synced`; at most `_NAMED` names.

    `full`: no more jobs may be disrupted now, so those that are known to wait for that are left out. Of the rollouts,
    but for those that were committed under the number `done`, at most `MOST_ROLLING`.
    """
    rolling = read_rolling(connection, done=done, most=MOST_ROLLING)
    row = connection.execute(_SURVEY, {"limit": _NAMED, "full": full, "rolling": list(rolling)}).one()
    return Survey(row.jobs, row.usual, row.stopping, tuple(row.names or ()), full, rolling)


def read_rolling(connection: Connection, *, done: int | None = None, most: int | None = None) -> tuple[str, ...]:
    """Jobs with a recorded rollout; at most so many, by chance, and none that was committed under the number `done`."""
    return tuple(connection.execute(_ROLLING, {"done": done, "most": most}).scalars())


def read_jobs(connection: Connection, found: Survey | None, basis: str) -> Iterator[JobRow]:
    """The jobs that `survey` found in this very transaction; all jobs without it.

    Merged configurations are those stored on `basis`. Rows are streamed, so memory does not grow with their number.
    """
    if found is not None and not found.jobs:
        return
    # Plan for all rows, not for the first tenth that a cursor is usually read for.
    connection.execute(text("SET LOCAL cursor_tuple_fraction = 1"))
    streamed = connection.execution_options(yield_per=_BATCH)
    for row in streamed.execute(*_read_statement(found, basis)):
        yield _job_row(row)


def _read_statement(found: Survey | None, basis: str) -> tuple[TextClause, dict[str, Any]]:
    if found is None:
        return _READ_ALL, {"basis": basis}
    if found.jobs > len(found.names):
        return _READ_BEHIND, {"basis": basis, "full": found.full, "rolling": list(found.rolling)}
    return _READ_NAMED, {"basis": basis, "names": list(found.names)}


def _job_row(row: Row[Any]) -> JobRow:
    return JobRow(
        job=row.name,
        revision=row.revision,
        restarts=row.restarts,
        deleting=row.deleting,
        merged=row.merged,
        layers=tuple(row.configs or ()),
        running=_running_row(row),
        sync=_sync_row(row),
        forgotten_generation=row.forgotten_generation,
        plan=None if row.plan is None else PlanRow(row.plan, row.newest_generation, row.deleting),
    )


def _running_row(row: Row[Any]) -> RunningRow | None:
    if row.running_config is None:
        return None
    return RunningRow(
        row.running_config,
        row.running_revision,
        row.generation,
        row.running_restarts,
        row.stopping,
        row.started,
        row.commit_number,
        row.rollout,
    )


def _sync_row(row: Row[Any]) -> SyncRow | None:
    if row.state is None:
        return None
    return SyncRow(
        row.state,
        row.detail,
        row.sync_revision,
        row.change_kind,
        tuple(row.changed_fields),
        row.failures,
        row.next_attempt_at,
    )


def read_containers(connection: Connection) -> list[ContainerRow]:
    """All containers with their newest reports."""
    return [ContainerRow(*row) for row in connection.execute(_CONTAINERS)]


def read_owners(connection: Connection) -> frozenset[str]:
    """The containers that own a shard."""
    return frozenset(connection.execute(_OWNERS).scalars())


def read_stopping(connection: Connection) -> list[str]:
    """The jobs whose stop is committed."""
    return list(connection.execute(_STOPPING).scalars())


def read_holders(connection: Connection, jobs: Sequence[str]) -> dict[str, set[str]]:
    """For each of the jobs: the containers whose newest report has a task of it."""
    holders: dict[str, set[str]] = {job: set() for job in jobs}
    if holders:
        for job, container in connection.execute(_HOLDERS, {"jobs": list(holders)}):
            holders[job].add(container)
    return holders


def read_ranks(connection: Connection) -> RanksRow:
    """The rank of each layer, now and when all jobs were last looked at (None: never)."""
    row = connection.execute(_RANKS).one()
    return RanksRow(dict(row.present or {}), row.synced)


def write_synced_ranks(connection: Connection, ranks: Mapping[str, int]) -> None:
    """Notes that every job has been looked at with these ranks."""
    connection.execute(_SYNCED_RANKS, {"ranks": orjson.dumps(ranks).decode()})


def count_states(connection: Connection) -> dict[str, int]:
    """How many jobs are in each sync state."""
    return {row[0]: row[1] for row in connection.execute(_COUNTS)}


def write_sync_states(connection: Connection, writes: Sequence[SyncWrite]) -> None:
    """Writes sync states that changed; one that was changed by somebody else meanwhile is left to the next round."""
    for statement, seen in ((_INSERT, False), (_UPDATE, True)):
        chosen = [_record(write) for write in writes if (write.seen is not None) is seen]
        if chosen:
            connection.execute(statement, {"rows": orjson.dumps(chosen).decode()})


def _record(write: SyncWrite) -> dict[str, Any]:
    seen = write.seen
    return {
        "job": write.job,
        **write.new._asdict(),
        "seen_state": None if seen is None else seen.state,
        "seen_failures": None if seen is None else seen.failures,
    }


def raise_quarantine_alerts(connection: Connection, writes: Sequence[SyncWrite]) -> None:
    """One alert of kind `quarantined` a job; raising it again only counts."""
    if writes:
        connection.execute(_RAISE, {"rows": orjson.dumps([_record(write) for write in writes]).decode()})


def clear_quarantine_alerts(connection: Connection, jobs: Sequence[str]) -> None:
    """Closes the alerts of jobs that are in quarantine no more."""
    if jobs:
        connection.execute(_CLEAR, {"jobs": list(jobs)})
