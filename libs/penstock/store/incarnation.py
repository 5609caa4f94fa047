"""The incarnation of the store: after a restore from a backup, or a fail-over that lost commits, another one begins.

Numbers that the store hands out (revisions, commits, epochs, generations, versions) mean the same only within one
incarnation: what was written after the backup is lost, and its numbers would be used twice. `begin_incarnation`:

- gives the store a new random id, which snapshots of the running table carry;
- raises every number above what the lost writes can have used;
- forgets the lives of all containers, so that nobody runs, renews or reports anything under a former one;
- lets no loop be led for a while. By then all leases of the former incarnation have run out, and its tasks stopped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from uuid import uuid4

from sqlalchemy import Connection, text

from penstock.store.cluster import INCARNATION, write_fact
from penstock.store.engine import CHANGED_EXPECTED, CHANGED_RUNNING, notify
from penstock.store.json import as_json, as_jsonb
from penstock.store.leases import EPOCH_NOW, SHARD_MANAGER
from penstock.store.running import RUNNING_COMMIT, STATE_SYNCER
from penstock.store.shards import ASSIGNMENT_COUNTER

QUIET_SECONDS = 75.0
"""A leader's lease (15 s) and the time after which a silent container is failed over (60 s)."""
NUMBERS_RAISED = 1_000_000
EPOCHS_RAISED = 3_600_000_000
"""Of leases: an hour, by which the clock of the server before may have been ahead."""
VERSIONS_RAISED = 1_000
GENERATIONS_RAISED = 1_000

_WAIT_BRIEFLY = text("SET LOCAL lock_timeout = '30s'")
_LOCK_LEASES = text("SELECT name FROM leases FOR UPDATE")
_NOBODY_LEADS = text(
    f"""
    INSERT INTO leases AS held (name, holder, epoch, url, expires_at)
    SELECT name, :holder, {EPOCH_NOW} + :raised, '', clock_timestamp() + make_interval(secs => :seconds)
    FROM (SELECT name FROM leases UNION SELECT unnest(CAST(:loops AS text[]))) AS loops(name)
    ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, url = '',
        epoch = GREATEST(held.epoch + :raised, excluded.epoch), expires_at = excluded.expires_at
    """
)
_LOOPS = [STATE_SYNCER, SHARD_MANAGER, "auto_scaler"]
_RAISE_VERSIONS = text("UPDATE expected_layers SET version = version + :raised")
_RAISE_GENERATIONS = text(
    """
    UPDATE running SET newest_generation = GREATEST(generation, newest_generation) + :raised
    RETURNING job, generation, newest_generation AS newest
    """
)
_RAISE_FORGOTTEN = text("UPDATE forgotten SET generation = generation + :raised RETURNING job, generation AS newest")
_FOUND = "json_to_recordset(CAST(:found AS json)) AS found(job text, generation bigint)"
_RAISE_TO_FOUND = text(
    f"""
    UPDATE running SET newest_generation = found.generation FROM {_FOUND}
    WHERE found.job = running.job AND found.generation > GREATEST(running.generation, running.newest_generation)
    RETURNING running.job, running.generation, found.generation AS newest
    """
)
_FORGET_FOUND = text(
    f"""
    INSERT INTO forgotten AS held (job, commit_number, generation)
    SELECT found.job, :commit_number, found.generation FROM {_FOUND}
    WHERE NOT EXISTS (SELECT FROM running WHERE running.job = found.job)
    ON CONFLICT (job) DO UPDATE SET generation = excluded.generation WHERE held.generation < excluded.generation
    RETURNING held.job, held.generation AS newest
    """
)
# A row with the highest number: those below it are not looked for, so nothing that they name on disk is deleted.
_NOTE_GENERATIONS = text(
    """
    INSERT INTO generations (job, generation, attempted, unused_since, collected_at, detail)
    SELECT job, generation, true, now(), now(), 'numbers up to this one may have been used: penstock restored'
    FROM json_to_recordset(CAST(:rows AS json)) AS raised(job text, generation bigint) ON CONFLICT DO NOTHING
    """
)
_RAISE_COUNTERS = text("UPDATE counters SET value = value + :raised RETURNING name, value")
_IDENTITIES = text(
    """
    SELECT pg_get_serial_sequence(quote_ident(table_name), column_name) AS sequence FROM information_schema.columns
    WHERE table_schema = current_schema() AND is_identity = 'YES' ORDER BY table_name
    """
)
_RAISE_SEQUENCE = text("SELECT setval(CAST(:sequence AS regclass), nextval(CAST(:sequence AS regclass)) + :raised)")
_RAISE_ASSIGNMENT = text("UPDATE assignment SET epoch = :epoch, moved_at = clock_timestamp()")
_LOCK_CONTAINERS = text("SELECT FROM containers ORDER BY name FOR NO KEY UPDATE")
_FORGET_LIVES = text(
    """
    UPDATE containers SET state = 'lost', incarnation = :holder, lease_renewed_at = NULL,
        heartbeat_at = clock_timestamp()
    """
)
_FORGET_REPORTS = text("WITH gone AS (DELETE FROM reports) DELETE FROM tasks")
_HOLD = text("SELECT value #>> '{}' FROM cluster WHERE key = :key FOR UPDATE")
_RECORD = text(
    """
    INSERT INTO incarnations (incarnation, former, author, reason, raised)
    VALUES (:incarnation, :former, :author, :reason, :raised)
    """
)


class Begun(NamedTuple):
    """A new incarnation. `counters`: each counter's new value. `containers`: how many must join anew.

    `behind`: by job, the generation that it runs and a newer one on disk: it was rescaled, or that was tried, after the
    backup. `unknown`: jobs with checkpoints that the store does not know.
    """

    incarnation: str
    former: str | None
    counters: Mapping[str, int]
    containers: int
    behind: Mapping[str, tuple[int, int]]
    unknown: tuple[str, ...]


class _Raised(NamedTuple):
    """The highest generation of each job whose number was raised; see `Begun`."""

    newest: Mapping[str, int]
    behind: Mapping[str, tuple[int, int]]
    unknown: tuple[str, ...]


def begin_incarnation(
    connection: Connection,
    *,
    author: str,
    reason: str,
    quiet_seconds: float = QUIET_SECONDS,
    on_disk: Mapping[str, int] | None = None,
) -> Begun:
    """Begins another incarnation of the store, in one transaction.

    `on_disk`: the newest generation of each job by its folders. Without it the numbers of generations are raised by
    `GENERATIONS_RAISED`. No loop is led for `quiet_seconds`.
    """
    incarnation = uuid4().hex
    holder = f"restored-{incarnation[:8]}"
    connection.execute(_WAIT_BRIEFLY)
    connection.execute(_LOCK_LEASES)
    connection.execute(_LOCK_CONTAINERS)
    leases = {"holder": holder, "raised": EPOCHS_RAISED, "seconds": quiet_seconds, "loops": _LOOPS}
    connection.execute(_NOBODY_LEADS, leases)
    connection.execute(_RAISE_VERSIONS, {"raised": VERSIONS_RAISED})
    counters = _raise_counters(connection)
    raised = _raise_generations(connection) if on_disk is None else _raise_to(connection, on_disk, counters)
    rows = [{"job": job, "generation": generation} for job, generation in raised.newest.items()]
    connection.execute(_NOTE_GENERATIONS, {"rows": as_json(rows)})
    connection.execute(_RAISE_ASSIGNMENT, {"epoch": counters[ASSIGNMENT_COUNTER]})
    containers = connection.execute(_FORGET_LIVES, {"holder": holder}).rowcount
    connection.execute(_FORGET_REPORTS)
    former = _replace_incarnation(connection, incarnation)
    record = {"incarnation": incarnation, "former": former, "author": author, "reason": reason}
    connection.execute(_RECORD, record | {"raised": as_jsonb({"counters": counters})})
    for channel in (CHANGED_RUNNING, CHANGED_EXPECTED):
        notify(connection, channel)
    return Begun(incarnation, former, counters, containers, raised.behind, raised.unknown)


def _raise_counters(connection: Connection) -> dict[str, int]:
    for sequence in connection.execute(_IDENTITIES).scalars().all():
        connection.execute(_RAISE_SEQUENCE, {"sequence": sequence, "raised": NUMBERS_RAISED})
    rows = connection.execute(_RAISE_COUNTERS, {"raised": NUMBERS_RAISED})
    return {row.name: row.value for row in rows}


def _raise_generations(connection: Connection) -> _Raised:
    raised = {"raised": GENERATIONS_RAISED}
    running, forgotten = connection.execute(_RAISE_GENERATIONS, raised), connection.execute(_RAISE_FORGOTTEN, raised)
    return _Raised({row.job: row.newest for row in (*running, *forgotten)}, {}, ())


def _raise_to(connection: Connection, on_disk: Mapping[str, int], counters: Mapping[str, int]) -> _Raised:
    found = as_json([{"job": job, "generation": generation} for job, generation in on_disk.items()])
    running = connection.execute(_RAISE_TO_FOUND, {"found": found}).all()
    values = {"found": found, "commit_number": counters[RUNNING_COMMIT]}
    unknown = connection.execute(_FORGET_FOUND, values).all()
    return _Raised(
        {row.job: row.newest for row in (*running, *unknown)},
        {row.job: (row.generation, row.newest) for row in running},
        tuple(sorted(row.job for row in unknown)),
    )


def _replace_incarnation(connection: Connection, incarnation: str) -> str | None:
    former: str | None = connection.execute(_HOLD, {"key": INCARNATION}).scalar_one_or_none()
    write_fact(connection, INCARNATION, incarnation)
    return former
