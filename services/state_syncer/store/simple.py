"""Differences that need no plan, committed where they lie: configurations do not travel.

Nothing is decided here. Each merged configuration is stored with its digests (`penstock.tasks.digests`), and these
statements only ask whether digests are equal. A difference is simple when neither a rescale, a rollout nor a host task
follows from it. Jobs with a simple difference, and first configurations, are committed with their sync states
under one commit number. Jobs that need a rescale or a rollout and nothing else are noted as `queued`; decisions about
them are made in Python, in the order of admission. So are those about all other jobs.

Statements over all jobs join by hashes: the planner's statistics are stale right after a bulk write, and a nested loop
over 100,000 jobs would not end. Statements over named jobs use the primary keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, TextClause, text

from penstock.store.engine import CHANGED_RUNNING, next_number, notify
from penstock.store.running import RUNNING_COMMIT
from services.state_syncer.decide.budget import Waits

# A newer configuration is stored on the present basis, nothing goes on with the job, and nothing else was asked of it.
_IS_FRESH = """r.job = j.name AND s.job = j.name AND e.job = j.name
            AND s.revision < j.revision AND s.state IN ('synced', 'queued') AND s.failures = 0 AND s.plan IS NULL
            AND r.revision < j.revision AND r.restarts = j.restarts AND NOT r.stopping AND r.rollout IS NULL
            AND e.revision = j.revision AND e.basis = :basis AND NOT j.deleting
            AND NOT EXISTS (SELECT FROM restores w WHERE w.job = j.name)"""


def _differs(name: str, running: str = "r") -> str:
    """Whether the digests of this name differ; NULL where one is missing."""
    return f"e.digests->>'{name}' <> {running}.digests->>'{name}'"


def _kind(running: str = "r") -> str:
    cases = " ".join(f"WHEN {_differs(kind, running)} THEN {kind!r}" for kind in _KINDS)
    return f"CASE {cases} ELSE 'none' END"


_KINDS = ("forbidden", "rescale", "restart", "live")
# A job that never started has no checkpoints, so that only a host may have to be asked first.
_IS_FORBIDDEN = f"(r.started AND {_differs('forbidden')})"
_NEEDS_RESCALE = f"(r.started AND {_differs('rescale')})"
_NEEDS_ROLLOUT = f"(r.started AND r.asks_for_tasks AND e.asks_for_tasks AND {_differs('package')})"
# A write that is under way may still change all its fields: decided in Python, and compared under a lock
# (`store/guards.py`).
_STARTS_FIRST = "(NOT r.started AND e.asks_for_tasks)"
# Such a job stops at once, whatever else it needs, and it may start at once.
_STOPS_OR_STARTS = "(r.asks_for_tasks <> e.asks_for_tasks)"
_NEEDS_HOST = f"""(CASE WHEN r.started THEN e.digests->>'changed' <> '' AND {_differs("changed")}
            ELSE e.digests->>'first' <> '' AND e.asks_for_tasks END)"""

_COMMIT_CHANGED = f"""
    WITH committed AS (
        UPDATE running r SET
            config = e.config, digests = e.digests, revision = e.revision,
            started = r.started OR e.asks_for_tasks,
            commit_number = :commit_number, leader_epoch = :leader_epoch, committed_at = now()
        FROM jobs j, sync_state s, expected_configs e
        WHERE {_IS_FRESH}
            AND ({_IS_FORBIDDEN} OR {_NEEDS_RESCALE} OR {_NEEDS_ROLLOUT} OR {_NEEDS_HOST} OR {_STARTS_FIRST}) IS FALSE
            {{which}}
        RETURNING r.job, r.revision, {_kind("old")} AS kind
    ), noted AS (
        UPDATE sync_state s SET
            state = 'synced', detail = '', revision = committed.revision, change_kind = committed.kind,
            changed_fields = NULL, updated_at = now()
        FROM committed
        WHERE s.job = committed.job AND s.state IN ('synced', 'queued') AND s.failures = 0
    )
    SELECT kind, count(*) AS jobs, max(revision) AS revision,
        (array_agg(job))[1 : :sample] AS names, (array_agg(revision))[1 : :sample] AS revisions
    FROM committed GROUP BY kind ORDER BY kind
    """
# A job that somebody writes to is left to the next round: its fields may all change before its first commit, and not
# afterwards, so nobody may write to it between the two.
_COMMIT_FIRST = """
    WITH fresh AS MATERIALIZED (
        SELECT j.name AS job, j.revision, j.restarts, coalesce(f.generation, 0) AS last_generation
        FROM jobs j LEFT JOIN forgotten f ON f.job = j.name
        WHERE NOT j.deleting
            AND NOT EXISTS (SELECT FROM sync_state s WHERE s.job = j.name)
            AND NOT EXISTS (SELECT FROM restores w WHERE w.job = j.name)
            {which}
        FOR KEY SHARE OF j SKIP LOCKED
    ), committed AS (
        INSERT INTO running
            (job, config, digests, revision, generation, restarts, stopping, started, commit_number, leader_epoch,
            first_generation)
        SELECT fresh.job, e.config, e.digests, fresh.revision, fresh.last_generation + 1, fresh.restarts, false,
            e.asks_for_tasks, :commit_number, :leader_epoch, fresh.last_generation + 1
        FROM fresh JOIN expected_configs e ON e.job = fresh.job AND e.revision = fresh.revision AND e.basis = :basis
        WHERE e.digests->>'first' = '' OR NOT e.asks_for_tasks
        ON CONFLICT (job) DO NOTHING
        RETURNING job, revision
    ), noted AS (
        INSERT INTO sync_state (job, state, revision, changed_fields)
        SELECT job, 'synced', revision, '{{}}' FROM committed
        ON CONFLICT (job) DO NOTHING
    ), remembered AS (
        DELETE FROM forgotten USING committed WHERE forgotten.job = committed.job
    )
    SELECT 'first' AS kind, count(*) AS jobs, max(revision) AS revision,
        (array_agg(job))[1 : :sample] AS names, (array_agg(revision))[1 : :sample] AS revisions
    FROM committed HAVING count(*) > 0
    """
# The digests say what changes: `rescale` of a job that waits for a rescale.
_QUEUE = f"""
    UPDATE sync_state s SET
        state = 'queued', revision = j.revision, change_kind = {_kind()},
        detail = CASE {_kind()} WHEN 'rescale' THEN :for_turn ELSE :for_rollout END,
        changed_fields = NULL, updated_at = now()
    FROM jobs j, running r, expected_configs e
    WHERE {_IS_FRESH} AND ({_NEEDS_RESCALE} OR {_NEEDS_ROLLOUT})
        AND ({_IS_FORBIDDEN} OR {_NEEDS_HOST} OR {_STOPS_OR_STARTS}) IS FALSE
        {{which}}
    """


def _scoped(statement: str) -> tuple[TextClause, TextClause]:
    """The statement over all jobs, and over those that are named."""
    return text(statement.format(which="")), text(statement.format(which="AND j.name = ANY(:names)"))


_COMMIT_CHANGED_OF, _COMMIT_FIRST_OF, _QUEUE_OF = map(_scoped, (_COMMIT_CHANGED, _COMMIT_FIRST, _QUEUE))
# The hash tables of 100,000 jobs take some 10 MB each.
_JOIN_BY_HASHES = text("SET LOCAL enable_nestloop = off; SET LOCAL work_mem = '64MB'")


class Committed(NamedTuple):
    """So many jobs that were committed for one kind of change, the highest of their revisions, and some of them with
    their revisions."""

    kind: str
    jobs: int
    revision: int
    sample: tuple[tuple[str, int], ...]


class SimpleCommits(NamedTuple):
    """What was committed under one number, by kind; number None: nothing was."""

    number: int | None = None
    committed: tuple[Committed, ...] = ()

    @property
    def jobs(self) -> int:
        """How many jobs were committed."""
        return sum(alike.jobs for alike in self.committed)


def commit_simple(
    connection: Connection, basis: str, leader_epoch: int, *, names: Sequence[str] | None, sample: int
) -> SimpleCommits:
    """Commits simple differences and first configurations of the named jobs, or of all.

    `basis`: what merges depend on besides the layers. The leader's epoch was checked in this transaction. At most
    `sample` jobs of each kind are named in the result.
    """
    with connection.begin_nested() as attempt:
        number = next_number(connection, RUNNING_COMMIT)
        values = {"basis": basis, "commit_number": number, "leader_epoch": leader_epoch, "sample": sample}
        committed = [
            Committed(row.kind, row.jobs, row.revision, tuple(zip(row.names, row.revisions, strict=True)))
            for scopes in (_COMMIT_FIRST_OF, _COMMIT_CHANGED_OF)
            for row in _execute(connection, scopes, names, values).all()
        ]
        if not committed:
            attempt.rollback()
            return SimpleCommits()
    notify(connection, CHANGED_RUNNING, str(number))
    return SimpleCommits(number, tuple(committed))


def queue_others(connection: Connection, basis: str, waits: Waits, *, names: Sequence[str] | None) -> None:
    """Notes of the jobs that need a rescale or a rollout, and nothing else, that they wait for room."""
    _execute(connection, _QUEUE_OF, names, {"basis": basis, **waits._asdict()})


def _execute(
    connection: Connection, scopes: tuple[TextClause, TextClause], names: Sequence[str] | None, values: dict[str, Any]
) -> Any:
    if names is not None:
        return connection.execute(scopes[1], {"names": list(names), **values})
    connection.execute(_JOIN_BY_HASHES)
    return connection.execute(scopes[0], values)
