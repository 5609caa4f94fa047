"""Expected configurations: read under a lock, and written by one set-based statement.

A write is `claim` (new jobs only), `hold`, a pure decision, and `commit`, in one transaction. Locks are taken in the
order of names: claims first, then rows, then the revision counter. So no two writers wait for each other in a ring. The
counter comes last, because it stays locked until the transaction ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, text

from penstock.model.jobs import Change, Committed, LayerRow, StoredJob, StoredLayer
from penstock.store.engine import CHANGED_EXPECTED
from penstock.store.json import as_json
from penstock.store.rows import ByNames, columns, columns_but_first
from penstock.tasks.digests import digests_of
from services.job_service.flows import Flow
from services.job_service.store.flows import of_row
from services.job_service.store.layers import SHARED_LAYERS, all_layers

_COLUMNS = "name, revision, restarts, deleting, owner, created_at"
_READ = ByNames(f"SELECT {_COLUMNS} FROM jobs WHERE name {{names}}")
_LOCK = ByNames(f"SELECT {_COLUMNS} FROM jobs WHERE name {{names}} ORDER BY name FOR UPDATE OF jobs")
# No row comes out of a join before each of its sides was asked, and no row is locked before it came out.
_OF_HELD = f"""
    WITH layers AS MATERIALIZED (SELECT 1 AS held FROM {SHARED_LAYERS})
    SELECT {_COLUMNS} FROM layers, jobs WHERE name {{names}} ORDER BY name FOR UPDATE OF jobs
    """
_HOLD = ByNames(_OF_HELD)
_HOLD_FREE = ByNames(f"{_OF_HELD} SKIP LOCKED")
# One statement, since each costs more than what it reads.
_OF_JOBS = f"""
    SELECT 'layer' AS kind, job, {columns(StoredLayer)} FROM expected_layers WHERE job {{names}}
    UNION ALL SELECT 'running', job, NULL, config, NULL, NULL, NULL, NULL, NULL, NULL
    FROM running WHERE job {{names}} AND started
    """
_CONTENTS = ByNames(_OF_JOBS)
_ALL_THAT_WRITES_MEET = ByNames(
    f"""
    {_OF_JOBS}
    UNION ALL SELECT 'flow', job, NULL, jsonb_build_array({columns_but_first(Flow)}),
        NULL, NULL, NULL, NULL, NULL, NULL
    FROM flows WHERE job {{names}}
    UNION ALL SELECT 'rank', name, NULL, jsonb_build_array({columns_but_first(LayerRow)}),
        NULL, NULL, NULL, NULL, NULL, NULL
    FROM layers
    """
)
_NOT_YET_WRITTEN = 0

_CLAIM = text(
    """
    INSERT INTO jobs (name, revision)
    SELECT name, :revision FROM unnest(CAST(:names AS text[])) AS name ORDER BY name
    ON CONFLICT DO NOTHING
    """
)

# A layer's next version continues its history, so it also grows over deletion and re-creation of the job.
# Postgres plans a set from JSON as one of a hundred rows, for which it would read all of a table of some ten thousand
# jobs. The limit tells it how many there are.
_COMMIT = text(
    f"""
    WITH number AS (
        UPDATE counters SET value = value + :count WHERE name = 'revision' RETURNING value - :count AS before
    ), given AS MATERIALIZED (
        SELECT item.*, number.before + item.position AS revision,
            CASE WHEN item.layer IS NOT NULL THEN 1 + greatest(
                0,
                (SELECT max(history.version) FROM history
                 WHERE history.job = item.job AND history.layer = item.layer),
                (SELECT present.version FROM expected_layers AS present
                 WHERE present.job = item.job AND present.layer = item.layer)) END AS version
        FROM number, jsonb_to_recordset(CAST(:changes AS jsonb)) AS item (
            position integer, job text, action text, author text, reason text, owner text, restarts integer,
            deleting boolean, layer text, old jsonb, new jsonb, merged jsonb, digests jsonb,
            expires_at timestamptz)
        LIMIT :count
    ), touched AS (
        UPDATE jobs SET revision = given.revision, restarts = given.restarts, deleting = given.deleting,
            owner = given.owner
        FROM given WHERE jobs.name = given.job
    ), written AS (
        INSERT INTO expected_layers (job, layer, config, version, revision, author, reason, expires_at)
        SELECT job, layer, new, version, revision, author, reason, expires_at FROM given WHERE layer IS NOT NULL
        ON CONFLICT (job, layer) DO UPDATE SET config = excluded.config, version = excluded.version,
            revision = excluded.revision, author = excluded.author, reason = excluded.reason,
            expires_at = excluded.expires_at, written_at = now()
    ), merged AS (
        INSERT INTO expected_configs (job, config, digests, revision, basis)
        SELECT job, merged, digests, revision, :basis FROM given WHERE merged IS NOT NULL
        ON CONFLICT (job) DO UPDATE SET config = excluded.config, digests = excluded.digests,
            revision = excluded.revision, basis = excluded.basis
    ), recorded AS (
        INSERT INTO history (job, layer, version, revision, action, author, reason, old, new, expires_at)
        SELECT job, layer, version, revision, action, author, reason, old, new, expires_at
        FROM given ORDER BY position
    )
    SELECT revision, version, pg_notify('{CHANGED_EXPECTED}', job) FROM given ORDER BY position
    """
)
_UNCLAIM = text("DELETE FROM jobs WHERE name = ANY(:names) AND revision = :revision")


class Found(NamedTuple):
    """What writes meet: the jobs that exist or are claimed, the layers of the cell by name, lowest rank first, and the
    flows that are stored of the jobs."""

    jobs: Mapping[str, StoredJob]
    layers: Mapping[str, LayerRow]
    flows: Mapping[str, Flow]


def claim(connection: Connection, names: Sequence[str]) -> None:
    """Makes rows for the jobs among `names` that do not exist, so that they can be locked. Waits for other writers.

    Call `unclaim` before the transaction ends: it removes the rows that nothing was written to.
    """
    if names:
        connection.execute(_CLAIM, {"names": list(set(names)), "revision": _NOT_YET_WRITTEN})


def unclaim(connection: Connection, names: Sequence[str]) -> None:
    """Removes the claims among `names` that nothing was written to."""
    connection.execute(_UNCLAIM, {"names": list(names), "revision": _NOT_YET_WRITTEN})


def hold(connection: Connection, names: Sequence[str]) -> Found:
    """What is stored of the jobs among `names`. Until the transaction ends they are locked, and the cell's layers stay
    as they are."""
    # All else is read by a later statement, so that it sees what the previous holder of the lock wrote. The State
    # Syncer locks the row of a job for its first commit, so that is true of running rows, too.
    return _met(connection, _HOLD.execute(connection, names))


def hold_free(connection: Connection, names: Sequence[str]) -> Found:
    """As `hold`, without the jobs that another transaction has locked."""
    return _met(connection, _HOLD_FREE.execute(connection, names))


def read_again(connection: Connection, names: Sequence[str]) -> Found:
    """The same of jobs that are held and were written to since."""
    return _met(connection, _READ.execute(connection, names))


def lock(connection: Connection, names: Sequence[str]) -> dict[str, StoredJob]:
    """The jobs among `names` that exist or are claimed, with their layers, locked until the transaction ends."""
    return _with_contents(connection, _LOCK.execute(connection, names))


def read(connection: Connection, names: Sequence[str]) -> dict[str, StoredJob]:
    """The jobs among `names` that exist, with their layers."""
    return _with_contents(connection, _READ.execute(connection, names))


def commit(connection: Connection, changes: Sequence[Change], basis: str) -> list[Committed]:
    """Writes the changes, at most one for each job. Each gets a revision of its own, in the order given.

    All jobs must be locked. The counter stays locked from here on, so end the transaction soon. `basis`: what the
    merged configurations depend on besides the layers' contents (`penstock.config.basis`).
    """
    if not changes:
        return []
    given = [_as_row(position, change) for position, change in enumerate(changes, start=1)]
    parameters = {"count": len(given), "changes": as_json(given), "basis": basis}
    rows = connection.execute(_COMMIT, parameters).all()
    return [Committed(change, int(row.revision), row.version) for change, row in zip(changes, rows, strict=True)]


def _as_row(position: int, change: Change) -> dict[str, Any]:
    digests = None if change.merged is None else digests_of(change.merged)
    named = {field.name: getattr(change, field.name) for field in fields(Change) if field.name != "config"}
    return {"position": position, "digests": digests, **named}


def _with_contents(connection: Connection, jobs: Sequence[Row[Any]]) -> dict[str, StoredJob]:
    return _stored(jobs, _CONTENTS.execute(connection, [row.name for row in jobs]) if jobs else ())


def _met(connection: Connection, jobs: Sequence[Row[Any]]) -> Found:
    if not jobs:
        return Found({}, all_layers(connection), {})
    contents = _ALL_THAT_WRITES_MEET.execute(connection, [row.name for row in jobs])
    ranks = sorted((LayerRow(row.job, *row.config) for row in contents if row.kind == "rank"), key=_rank)
    flows = [of_row(row.job, *row.config) for row in contents if row.kind == "flow"]
    return Found(_stored(jobs, contents), {row.name: row for row in ranks}, {flow.job: flow for flow in flows})


def _rank(layer: LayerRow) -> int:
    return layer.rank


def _stored(jobs: Sequence[Row[Any]], contents: Iterable[Sequence[Any]]) -> dict[str, StoredJob]:
    layers: dict[str, dict[str, StoredLayer]] = {row.name: {} for row in jobs}
    running: dict[str, Any] = {}
    for kind, job, layer, config, *written in contents:
        if kind == "layer":
            layers[job][layer] = StoredLayer(layer, config, *written)
        elif kind == "running":
            running[job] = config
    return {row.name: StoredJob(**row._mapping, running=running.get(row.name), layers=layers[row.name]) for row in jobs}
