"""Sync states as the store has them: read, written, and the alerts that follow from them. Set-based."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, text

from penstock.config.model import ChangeKind
from penstock.model.alerts import AlertKind
from penstock.model.jobs import JobState
from penstock.store.alerts import clear_alerts, raise_alerts
from penstock.store.json import as_json
from services.state_syncer.decide.view import SyncRecord

Ranks = Mapping[str, int]

# A round may read tens of thousands of rows: a look-up is cheaper than a call of the enumeration.
_STATES = {state.value: state for state in JobState}
_KINDS = {kind.name.lower(): kind for kind in ChangeKind}

_RANKS = text(
    """
    SELECT (SELECT json_object_agg(name, rank) FROM layers) AS present,
        (SELECT value FROM cluster WHERE key = 'synced_ranks') AS synced
    """
)
_WRITE_SYNCED_RANKS = text(
    """
    INSERT INTO cluster (key, value) VALUES ('synced_ranks', CAST(:ranks AS jsonb))
    ON CONFLICT (key) DO UPDATE SET value = excluded.value
    """
)
_COUNT_STATES = text("SELECT state, count(*) FROM sync_state GROUP BY state")

_RUNNING = text("SELECT job, revision, generation FROM running WHERE job = ANY(:jobs)")

_COLUMNS = "job, state, detail, revision, change_kind, changed_fields, failures, next_attempt_at"
_NEW = """json_to_recordset(CAST(:rows AS json)) AS new(
        job text, state text, detail text, revision bigint, change_kind text, changed_fields text[], failures int,
        next_attempt_at timestamptz, seen_state text, seen_failures int)"""
_INSERT = text(f"INSERT INTO sync_state ({_COLUMNS}) SELECT {_COLUMNS} FROM {_NEW} ON CONFLICT (job) DO NOTHING")
# A release by an operator since the row was read is not overwritten: the next round sees it.
_UPDATE = text(
    f"""
    UPDATE sync_state AS held SET
        state = new.state, detail = new.detail, revision = new.revision, change_kind = new.change_kind,
        changed_fields = new.changed_fields, failures = new.failures, next_attempt_at = new.next_attempt_at,
        updated_at = now()
    FROM {_NEW}
    WHERE held.job = new.job AND held.state = new.seen_state AND held.failures = new.seen_failures
    """
)


class SyncWrite(NamedTuple):
    """A sync state to write, and the one that the decision was made from (None: the job had no row)."""

    job: str
    new: SyncRecord
    seen: SyncRecord | None


class RanksRow(NamedTuple):
    """Layers to their ranks: as they are, and as all jobs were last merged with."""

    present: Ranks
    synced: Ranks | None

    @property
    def lowest_first(self) -> tuple[str, ...]:
        """The layers in the order in which they are merged."""
        return tuple(sorted(self.present, key=lambda layer: self.present[layer]))


def read_ranks(connection: Connection) -> RanksRow:
    """The rank of each layer, now and when all jobs were last read in full (None: never)."""
    row = connection.execute(_RANKS).one()
    return RanksRow(dict(row.present or {}), row.synced)


def write_synced_ranks(connection: Connection, ranks: Ranks) -> None:
    """Records that every job was read with these ranks."""
    connection.execute(_WRITE_SYNCED_RANKS, {"ranks": as_json(ranks)})


def count_states(connection: Connection) -> dict[str, int]:
    """How many jobs are in each sync state."""
    return {row[0]: row[1] for row in connection.execute(_COUNT_STATES)}


def sync_record(row: Row[Any]) -> SyncRecord | None:
    """The sync state of a joined row with `sync_revision`; None where the job has none.

    Raises ValueError when another release wrote a state or a kind that this one does not know.
    """
    if row.state is None:
        return None
    if row.state not in _STATES or row.change_kind not in _KINDS:
        raise ValueError(f"the state {row.state} with the kind of change {row.change_kind} is of another release")
    return SyncRecord(
        _STATES[row.state],
        row.sync_revision,
        row.detail,
        _KINDS[row.change_kind],
        None if row.changed_fields is None else tuple(row.changed_fields),
        row.failures,
        row.next_attempt_at,
    )


def write_sync_states(connection: Connection, writes: Sequence[SyncWrite]) -> None:
    """Writes sync states that changed; one that was changed by somebody else meanwhile is left to the next round."""
    for statement, seen in ((_INSERT, False), (_UPDATE, True)):
        chosen = [_row(write) for write in writes if (write.seen is not None) is seen]
        if chosen:
            connection.execute(statement, {"rows": as_json(chosen)})


def alert_of_quarantines(connection: Connection, writes: Sequence[SyncWrite]) -> None:
    """One alert of kind `quarantined` a job: raising it again only counts, and it is cleared when attempts go well."""
    new = {write.job: write.new for write in writes if write.new.state is JobState.QUARANTINED}
    rows = connection.execute(_RUNNING, {"jobs": list(new)}) if new else ()
    good = {row.job: (row.revision, row.generation) for row in rows}
    raise_alerts(
        connection,
        {
            (AlertKind.QUARANTINED, job): (f"the job is quarantined: {each.detail}", _details(each, good.get(job)))
            for job, each in new.items()
        },
    )
    clear_alerts(connection, AlertKind.QUARANTINED, [write.job for write in writes if has_recovered(write)])


def has_recovered(write: SyncWrite) -> bool:
    """Whether attempts on the job no longer fail, and might have before."""
    return write.new.failures == 0 and write.seen is not None and write.seen.state is not JobState.SYNCED


def _details(new: SyncRecord, good: tuple[int, int] | None) -> dict[str, Any]:
    """`good`: the running revision and generation; None: nothing runs."""
    revision, generation = good or (None, None)
    return {
        "revision": new.revision,
        "fields": new.fields,
        "failures": new.failures,
        "last_good_revision": revision,
        "last_good_generation": generation,
    }


def _row(write: SyncWrite) -> dict[str, Any]:
    new, seen = write.new, write.seen
    return {
        "job": write.job,
        "state": new.state.value,
        "detail": new.detail,
        "revision": new.revision,
        "change_kind": new.kind.name.lower(),
        "changed_fields": new.fields,
        "failures": new.failures,
        "next_attempt_at": new.next_attempt_at,
        "seen_state": None if seen is None else seen.state.value,
        "seen_failures": None if seen is None else seen.failures,
    }
