"""Many rollouts looked at where they lie: those whose last wave is healthy end, and what was seen of others is noted.

By the facts of `services.state_syncer.waves`: an upgraded task is well when the live container that owns it reports it,
in its present life, running, at the revision, the generation and the restarts that the rollout asks for, with no crash
since. All in one transaction of the State Syncer, after its epoch was checked.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, text

from penstock.store.cluster import SELECTORS
from penstock.store.plans import IS_ROLLOUT
from penstock.store.rollouts import HAS_WORKED
from penstock.store.selectors import selector_in
from penstock.tasks.shards import SLOTS

# As `penstock.tasks.shards.Sharding.shard_of`: the 128 bits of md5, by words of 32 bits, the last bits those of the
# selector's place, modulo the number of shards; NULL for a selector without a place.
_SLOT = (
    "(SELECT place - 1 FROM jsonb_array_elements_text(cell.selectors) WITH ORDINALITY AS known (selector, place) "
    "WHERE known.selector = t.selector)"
)
_WORDS = [f"('x' || substr(md5(t.job || '/' || t.index), {start}, 8))::bit(32)::bigint" for start in (1, 9, 17, 25)]
_WORDS[-1] = (
    f"(CASE WHEN t.selector IS NULL THEN {_WORDS[-1]} ELSE ({_WORDS[-1]} & ~CAST({SLOTS - 1} AS bigint)) + {_SLOT} END)"
)
SHARD = "0"
for _word in _WORDS:
    SHARD = f"(({SHARD} * (4294967296 % cell.shards) + {_word}) % cell.shards)"
"""An expression for the shard of a task `t` (job, index, selector) in a `cell` (shards, selectors)."""

# Nothing was written to the job since its wave was committed, and all tasks that are to be upgraded are. `told`: the
# crashes of tasks that are not upgraded yet.
_TABLE = text(
    """
    CREATE TEMPORARY TABLE seen_rollouts (job text, last boolean, well boolean, proved boolean, told jsonb)
    ON COMMIT DROP
    """
)
_LOOK = text(
    f"""
    INSERT INTO seen_rollouts (job, last, well, proved, told)
    WITH held AS MATERIALIZED (
        SELECT s.job, r.generation, {selector_in("r.config")} AS selector, s.plan->'crashes' AS crashes,
            (s.plan->>'revision')::bigint AS revision, (s.plan->>'restarts')::int AS restarts,
            (s.plan->'ends'->>(s.plan->>'wave')::int)::int AS upgraded,
            (s.plan->>'wave')::int + 1 = jsonb_array_length(s.plan->'ends') AND r.rollout IS NULL AS last,
            (s.plan->>'well_since')::timestamptz AS well_since
        FROM sync_state s
            JOIN running r ON r.job = s.job
            JOIN jobs j ON j.name = s.job
            JOIN expected_configs e ON e.job = s.job
        WHERE s.plan IS NOT NULL AND {IS_ROLLOUT} AND s.plan->>'step' = 'wave' AND s.state = 'rolling'
            AND s.failures = 0 AND (s.plan->>'revision')::bigint = j.revision AND r.revision = j.revision
            AND (s.plan->>'restarts')::int >= j.restarts AND NOT r.stopping AND NOT j.deleting
            AND e.revision = j.revision AND e.basis = :basis AND e.config = r.config
            AND NOT EXISTS (SELECT FROM restores w WHERE w.job = j.name)
    ), cell AS MATERIALIZED (
        SELECT (SELECT CAST(value AS bigint) FROM cluster WHERE key = 'shard_count') AS shards,
            coalesce((SELECT value FROM cluster WHERE key = '{SELECTORS}'), '[]') AS selectors
    ), told AS (
        SELECT t.job, t.index, t.state, t.revision, t.generation, t.restarts, t.crashes, t.container, held.selector,
            coalesce({HAS_WORKED}, false) AS has_worked
        FROM tasks t
            JOIN held ON held.job = t.job
            JOIN containers c ON c.name = t.container AND c.state = 'live'
            JOIN reports p ON p.container = c.name AND p.incarnation = c.incarnation
    ), reported AS (
        SELECT t.*, {SHARD} AS shard FROM told t CROSS JOIN cell
    ), owned AS (
        SELECT t.*, t.index < held.upgraded AND t.state = 'running' AND t.revision >= held.revision
            AND t.generation = held.generation AND t.restarts >= held.restarts
            AND t.crashes <= coalesce((held.crashes->>(t.index::text))::int, 0) AS well,
            t.revision < held.revision AS older
        FROM reported t JOIN assignment a ON a.shard = t.shard AND a.container = t.container
            JOIN held ON held.job = t.job
    ), counted AS (
        SELECT job, count(*) FILTER (WHERE well) AS well, count(*) FILTER (WHERE well AND has_worked) AS worked,
            jsonb_object_agg(index::text, crashes) FILTER (WHERE older AND crashes > 0) AS told
        FROM owned GROUP BY job
    )
    SELECT held.job, held.last, coalesce(counted.well, 0) = held.upgraded AS well,
        coalesce(counted.well, 0) = held.upgraded AND (counted.worked = held.upgraded
            OR coalesce(held.well_since <= CAST(:well_before AS timestamptz), false)) AS proved,
        counted.told
    FROM held LEFT JOIN counted ON counted.job = held.job
    """
)
# What is thought about tables that just changed as a whole is wrong: a loop in a loop would not end.
_PLANNED = text("SET LOCAL enable_nestloop = off; SET LOCAL work_mem = '64MB'")
_AS_BEFORE = text("SET LOCAL enable_nestloop = on")
_SETTLE = text(
    """
    WITH settled AS (
        UPDATE sync_state AS held SET
            state = 'synced', detail = '', revision = (held.plan->>'revision')::bigint, change_kind = 'restart',
            plan = NULL, step = NULL, updated_at = now()
        FROM seen_rollouts AS seen
        WHERE held.job = seen.job AND seen.last AND seen.proved AND held.state = 'rolling' AND held.failures = 0
        RETURNING held.job
    )
    SELECT count(*) FROM settled
    """
)
_NOTE = text(
    """
    UPDATE sync_state AS held SET plan = held.plan || jsonb_build_object(
        'crashes', held.plan->'crashes' || coalesce(seen.told, '{}'),
        'well_since', CASE WHEN seen.well THEN coalesce(held.plan->>'well_since', CAST(:now AS text)) END)
    FROM seen_rollouts AS seen
    WHERE held.job = seen.job AND held.state = 'rolling' AND NOT (seen.last AND seen.proved)
        AND ((held.plan->>'well_since' IS NOT NULL) <> seen.well
            OR NOT held.plan->'crashes' @> coalesce(seen.told, '{}'))
    """
)


def settle(connection: Connection, basis: str, *, well_before: datetime) -> int:
    """Ends the rollouts whose last wave is healthy: each task has finished a batch with rows, or all have been seen to
    run since `well_before`. How many. What else was seen is kept for `note`, until the transaction ends."""
    connection.execute(_TABLE)
    values = {"basis": basis, "well_before": well_before}
    connection.execute(_PLANNED)
    connection.execute(_LOOK, values)
    settled = connection.execute(_SETTLE).scalar_one()
    connection.execute(_AS_BEFORE)
    return int(settled)


def note(connection: Connection, now: str) -> None:
    """Records of the rollouts that go on since when all upgraded tasks run (`now`, as JSON has it, if they did not
    before), and how often the others had crashed: each has its turn to be looked at one by one, but not soon."""
    connection.execute(_NOTE, {"now": now})
