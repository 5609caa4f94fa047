"""The rows of generations of checkpoints: which are used no more, and how far their deletion is.

What is used follows from `running`, from the recorded plans and from `forgotten`; `note` writes down since when it does
not. Numbers only grow and are never used twice: what was once found unused stays so. A job's newest row is kept, even
when its files are gone: the next numbers to note are those above it.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, TextClause, text

from penstock.control.texts import clean
from services.state_syncer.generations.rules import UnusedGeneration
from services.state_syncer.store.plans import IS_ROLLOUT

_MOST = 1000

# A job with one generation only has nothing to collect and no row. One is remembered as forgotten only while it is.
_NOTE = """
    INSERT INTO generations (job, generation)
    SELECT held.job, fresh.generation
    FROM (
        SELECT r.job, GREATEST(r.generation, r.newest_generation) AS newest FROM running r
        WHERE (r.generation > 1 OR r.newest_generation > 1) {of_running}
        UNION ALL
        SELECT f.job, f.generation FROM forgotten f
        WHERE NOT EXISTS (SELECT FROM running r WHERE r.job = f.job) {of_forgotten}
    ) held
    LEFT JOIN (
        SELECT g.job, max(g.generation) AS newest FROM generations g WHERE true {of_generations} GROUP BY g.job
    ) noted ON noted.job = held.job
    CROSS JOIN LATERAL generate_series(coalesce(noted.newest, 0) + 1, held.newest) AS fresh(generation)
    ORDER BY held.job, fresh.generation LIMIT :at_most
    ON CONFLICT DO NOTHING
    """
# Above the one that runs: taken by an attempt, and not committed. Each record of a plan is noted in its transaction
# (`SyncStore.write`), so an attempt that was given up is noted before a later one can be committed. A plan of a rescale
# that does not say its generation, or says none that this version can read, may be about any: then all of the job count
# as used.
_UNUSED = """
    UPDATE generations AS held SET unused_since = now(), attempted = coalesce(held.generation > found.runs, false)
    FROM (
        SELECT g.job, g.generation, r.generation AS runs
        FROM generations g
        LEFT JOIN running r ON r.job = g.job
        LEFT JOIN forgotten f ON f.job = g.job
        LEFT JOIN sync_state s ON s.job = g.job
        WHERE g.unused_since IS NULL AND (r.job IS NOT NULL OR f.job IS NOT NULL)
            AND g.generation IS DISTINCT FROM r.generation
            AND to_jsonb(g.generation) IS DISTINCT FROM s.plan->'generation'
            AND (s.plan IS NULL OR {is_rollout}
                OR coalesce(jsonb_typeof(s.plan->'generation'), '') IN ('number', 'null')) {of_generations}
    ) found
    WHERE held.job = found.job AND held.generation = found.generation
    """
_PURGE = """
    DELETE FROM generations g WHERE collected_at IS NOT NULL {of_generations}
        AND EXISTS (SELECT FROM generations newer WHERE newer.job = g.job AND newer.generation > g.generation)
    """


def _statements(which: str) -> tuple[TextClause, ...]:
    parts = {
        f"of_{name}": which.format(alias=alias)
        for name, alias in (("running", "r"), ("forgotten", "f"), ("generations", "g"))
    }
    return tuple(text(statement.format(is_rollout=IS_ROLLOUT, **parts)) for statement in (_NOTE, _UNUSED, _PURGE))


_ALL = _statements("")
_SOME = _statements("AND {alias}.job = ANY(:jobs)")

# Those that are kept for sure are left out, so that all others fit; the State Syncer decides.
_READ = text(
    """
    WITH unused AS (
        SELECT g.*, count(*) FILTER (WHERE NOT attempted) OVER (
                PARTITION BY job ORDER BY generation DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS newer
        FROM generations g WHERE unused_since IS NOT NULL AND collected_at IS NULL
    ), found AS (
        SELECT u.job, u.generation, u.container, u.attempts, u.attempted,
            r.generation AS running, r.job IS NULL AND f.job IS NOT NULL AS forgotten,
            coalesce(u.generation < r.first_generation, false) AS former, s.plan IS NOT NULL AS planned,
            EXISTS (SELECT FROM savepoints p
                    WHERE p.job = u.job AND p.generation = u.generation AND p.state = 'asked') AS copied,
            CAST(extract(epoch FROM now() - GREATEST(u.unused_since, CASE WHEN r.job IS NULL THEN f.at END))
                AS double precision) AS unused_seconds,
            u.newer
        FROM unused u
        LEFT JOIN running r ON r.job = u.job
        LEFT JOIN forgotten f ON f.job = u.job
        LEFT JOIN sync_state s ON s.job = u.job
        WHERE u.container IS NOT NULL OR coalesce(u.next_attempt_at, '-infinity') <= now()
            AND (u.attempted OR u.newer >= :kept OR f.job IS NOT NULL OR u.generation < r.first_generation)
    )
    SELECT * FROM found WHERE container IS NOT NULL OR attempted OR unused_seconds >= :seconds
    ORDER BY container IS NULL, unused_seconds DESC, job, generation LIMIT :most
    """
)
_BIND = text(
    """
    UPDATE generations SET container = :container, attempts = attempts + 1
    WHERE job = :job AND generation = :generation AND collected_at IS NULL
    """
)
_RELEASE = text(
    """
    UPDATE generations SET container = NULL, detail = :detail, next_attempt_at = now() + make_interval(secs => :seconds)
    WHERE job = :job AND generation = :generation AND collected_at IS NULL
    """
)
_COLLECTED = text(
    """
    UPDATE generations SET collected_at = now(), container = NULL, detail = ''
    WHERE job = :job AND generation = :generation
    """
)


def note(connection: Connection, jobs: Sequence[str] | None = None, *, at_most: int = 100_000) -> None:
    """Notes the generations of these jobs, or of all, and which are used no more; the caller has checked its epoch.

    `at_most` so many new ones, a job's lowest first: the others are noted the next time.
    """
    statements, parameters = (_ALL, {}) if jobs is None else (_SOME, {"jobs": list(jobs)})
    insert, *others = statements
    connection.execute(insert, {**parameters, "at_most": at_most})
    for statement in others:
        connection.execute(statement, parameters)


def read_unused(connection: Connection, *, kept: int, seconds: float) -> list[UnusedGeneration]:
    """At most 1,000 that are being deleted or may have to be: attempts, those of forgotten jobs that are unused for
    `seconds`, and those that are, too, but for the newest `kept` of a job."""
    parameters = {"kept": kept, "seconds": seconds, "most": _MOST}
    return [UnusedGeneration(*row) for row in connection.execute(_READ, parameters)]


def bind(connection: Connection, job: str, generation: int, container: str) -> None:
    """`container` is to be asked next."""
    connection.execute(_BIND, {"job": job, "generation": generation, "container": container})


def release(connection: Connection, job: str, generation: int, *, why: str, seconds: float) -> None:
    """Nobody is asked now; another one may be after `seconds`."""
    parameters = {"job": job, "generation": generation, "detail": clean(why), "seconds": seconds}
    connection.execute(_RELEASE, parameters)


def collected(connection: Connection, job: str, generation: int) -> None:
    """Its files are gone."""
    connection.execute(_COLLECTED, {"job": job, "generation": generation})
