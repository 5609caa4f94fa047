"""Expected configurations: read under a lock, and written by one set-based statement.

A write is `claim` (new jobs only), `lock`, a pure decision, and `commit`, in one transaction. Locks are taken in the
order of names: claims first, then rows, then the revision counter. So no two writers wait for each other in a ring. The
counter comes last, because it stays locked until the transaction ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from sqlalchemy import Connection, text

from penstock.model.jobs import Change, Committed, StoredJob, StoredLayer
from penstock.store.engine import CHANGED_EXPECTED
from penstock.store.json import as_json
from penstock.store.rows import columns
from penstock.tasks.digests import digests_of

_JOBS = """
    SELECT name, revision, restarts, deleting, owner, created_at FROM jobs WHERE name = ANY(:names)
"""
_READ = text(_JOBS)
_LOCK = text(f"{_JOBS} ORDER BY name FOR UPDATE OF jobs")
# The State Syncer locks the row of a job for its first commit, so a running row is read after the lock, too. One
# statement, since each costs more than what it reads: a row without a layer is the running configuration.
_CONTENTS = text(
    f"""
    SELECT job, {columns(StoredLayer)} FROM expected_layers WHERE job = ANY(:names)
    UNION ALL SELECT job, NULL, config, NULL, NULL, NULL, NULL, NULL, NULL
    FROM running WHERE job = ANY(:names) AND started
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


def claim(connection: Connection, names: Sequence[str]) -> None:
    """Makes rows for the jobs among `names` that do not exist, so that they can be locked. Waits for other writers.

    Call `unclaim` before the transaction ends: it removes the rows that nothing was written to.
    """
    if names:
        connection.execute(_CLAIM, {"names": list(set(names)), "revision": _NOT_YET_WRITTEN})


def unclaim(connection: Connection, names: Sequence[str]) -> None:
    """Removes the claims among `names` that nothing was written to."""
    connection.execute(_UNCLAIM, {"names": list(names), "revision": _NOT_YET_WRITTEN})


def lock(connection: Connection, names: Sequence[str]) -> dict[str, StoredJob]:
    """The jobs among `names` that exist or are claimed, with their layers, locked until the transaction ends."""
    # All else is read by later statements, so that they see what the previous holder of the lock wrote.
    return _with_layers(connection, connection.execute(_LOCK, {"names": list(names)}).all())


def read(connection: Connection, names: Sequence[str]) -> dict[str, StoredJob]:
    """The jobs among `names` that exist, with their layers."""
    return _with_layers(connection, connection.execute(_READ, {"names": list(names)}).all())


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


def _with_layers(connection: Connection, rows: Sequence[Any]) -> dict[str, StoredJob]:
    layers: dict[str, dict[str, StoredLayer]] = {row.name: {} for row in rows}
    running: dict[str, Any] = {}
    for job, layer, config, *written in connection.execute(_CONTENTS, {"names": list(layers)}) if layers else ():
        if layer is None:
            running[job] = config
        else:
            layers[job][layer] = StoredLayer(layer, config, *written)
    return {row.name: StoredJob(**row._mapping, running=running.get(row.name), layers=layers[row.name]) for row in rows}
