"""The running table: what the cluster has been brought to. Written by the State Syncer alone, fenced by its epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Connection, text

from penstock.store import leases
from penstock.store.engine import CHANGED_RUNNING, next_number, notify
from penstock.store.json import as_json
from penstock.store.reports import want_full_reports
from penstock.tasks.digests import digests_of

STATE_SYNCER = "state_syncer"
RUNNING_COMMIT = "running_commit"
UNASKED_STOP = "unasked_stop"
"""The newest commit of a stop that the State Syncer took as done although a container had not reported since. Who gets
a shard later starts its tasks only from specs that are at least as new."""

# A running row never goes back to an older revision. `started` stays true once any commit asked for tasks.
_COMMIT = text(
    """
    INSERT INTO running AS held
        (job, config, revision, generation, restarts, stopping, started, commit_number, leader_epoch, committed_at,
        newest_generation, rollout, digests, first_generation, quiescing_commit,
        level_commit, level_ms)
    SELECT new.job, new.config, new.revision, new.generation, new.restarts, new.stopping, new.started,
        :commit_number, :leader_epoch, now(), new.generation, new.rollout, new.digests, new.generation,
        CASE WHEN new.quiescing THEN CAST(:commit_number AS bigint) END,
        CASE WHEN new.level_ms IS NOT NULL THEN CAST(:commit_number AS bigint) END, new.level_ms
    FROM json_to_recordset(CAST(:rows AS json)) AS new(
        job text, config jsonb, revision bigint, generation bigint, restarts int, stopping bool, started bool,
        rollout jsonb, digests jsonb, quiescing bool, level_ms bigint)
    ON CONFLICT (job) DO UPDATE SET
        config = excluded.config,
        digests = excluded.digests,
        revision = excluded.revision,
        generation = excluded.generation,
        restarts = excluded.restarts,
        stopping = excluded.stopping,
        started = held.started OR excluded.started,
        commit_number = excluded.commit_number,
        leader_epoch = excluded.leader_epoch,
        committed_at = excluded.committed_at,
        newest_generation = GREATEST(held.newest_generation, held.generation, excluded.generation),
        rollout = excluded.rollout,
        quiescing_commit = excluded.quiescing_commit,
        level_commit = excluded.level_commit,
        level_ms = excluded.level_ms
    WHERE held.revision <= excluded.revision
    """
)

# A job is gone from `forgotten` while it runs, so that a delta never both removes and serves it.
_REMEMBER = text("DELETE FROM forgotten WHERE job = ANY(:jobs)")

# Only jobs that are still to be deleted: what the caller read may be old.
_FORGET = text(
    """
    WITH gone AS (
        DELETE FROM jobs WHERE name = ANY(:jobs) AND deleting RETURNING name, revision
    ), stopped AS (
        DELETE FROM running USING gone WHERE running.job = gone.name
        RETURNING running.job, GREATEST(running.generation, running.newest_generation) AS generation
    ), state AS (
        DELETE FROM sync_state USING gone WHERE sync_state.job = gone.name
    ), reported AS (
        DELETE FROM tasks USING gone WHERE tasks.job = gone.name
    ), crashed AS (
        DELETE FROM task_crashes USING gone WHERE task_crashes.job = gone.name
    ), proved AS (
        DELETE FROM proven USING gone WHERE proven.job = gone.name
    ), stayed_away AS (
        DELETE FROM avoided USING gone WHERE avoided.job = gone.name
    ), remembered AS (
        INSERT INTO forgotten AS held (job, commit_number, generation)
        SELECT job, :commit_number, generation FROM stopped
        ON CONFLICT (job) DO UPDATE SET
            commit_number = excluded.commit_number,
            generation = GREATEST(held.generation, excluded.generation),
            at = now()
    ), noted AS (
        INSERT INTO history (job, revision, action, author, reason)
        SELECT name, revision, 'forget', :author, 'its tasks are gone' FROM gone
    )
    SELECT name FROM gone ORDER BY name
    """
)


class CommitRow(NamedTuple):
    """A running row to be: `config` is the JSON text of a complete configuration; `started` when it asks for tasks.

    `quiescing`: the tasks take no more rows; any later commit ends that. `level_ms`: as `TaskTemplate` has it.
    `rollout`: a `penstock.tasks.rollout.RunningRollout` as JSON; None when all tasks run `config`. `digests`: those of
    `config`; they are computed for a row without them.
    """

    job: str
    config: bytes
    revision: int
    generation: int
    restarts: int
    stopping: bool
    started: bool
    rollout: Mapping[str, Any] | None = None
    digests: Mapping[str, str] | None = None
    quiescing: bool = False
    level_ms: int | None = None


def commit_many(
    connection: Connection, commits: Sequence[CommitRow], leader_epoch: int, *, remade: Sequence[str] = ()
) -> int | None:
    """Writes running rows in one statement under one new commit number; that number, None without commits.

    `remade` names those of the jobs that were forgotten under the same name before. Readers wake when the
    transaction ends. Raises Fenced when a newer State Syncer leads; then nothing is written.
    """
    if not commits:
        return None
    leases.check_epoch(connection, STATE_SYNCER, leader_epoch)
    number = next_number(connection, RUNNING_COMMIT)
    connection.execute(
        _COMMIT,
        {"rows": as_json([_row(commit) for commit in commits]), "commit_number": number, "leader_epoch": leader_epoch},
    )
    if remade:
        connection.execute(_REMEMBER, {"jobs": list(remade)})
    notify(connection, CHANGED_RUNNING, str(number))
    return number


def _row(commit: CommitRow) -> dict[str, Any]:
    digests = commit.digests or digests_of(orjson.loads(commit.config))
    return commit._asdict() | {"config": orjson.Fragment(commit.config), "digests": digests}


def forget_many(connection: Connection, jobs: Sequence[str], leader_epoch: int) -> tuple[str, ...]:
    """Removes deleted jobs whose tasks are gone, keeps their last generation and history; the jobs it removed.

    Jobs that are no longer marked as deleting are left alone. Raises Fenced when a newer State Syncer leads.
    """
    if not jobs:
        return ()
    leases.check_epoch(connection, STATE_SYNCER, leader_epoch)
    number = next_number(connection, RUNNING_COMMIT)
    want_full_reports(connection, of_jobs=jobs)
    found = connection.execute(_FORGET, {"jobs": list(jobs), "commit_number": number, "author": STATE_SYNCER})
    gone = tuple(found.scalars())
    notify(connection, CHANGED_RUNNING, str(number))
    return gone
