"""The rows of profiles that are asked for, for the reconciler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, text

from penstock.control.logs import logger
from penstock.control.texts import clean
from penstock.store import leases
from penstock.store.engine import snapshot
from penstock.store.json import as_jsonb
from penstock.store.profiles import ASKED, DONE, FAILED, ProfileRow
from penstock.store.rows import columns, read_all
from penstock.store.running import STATE_SYNCER
from penstock.tasks.profile import ProfileReport
from services.state_syncer.host_tasks.next_attempt import Ask, Assign, AttemptDecision, GiveUp, LiveContainer, Retry
from services.state_syncer.host_tasks.outcomes import Done
from services.state_syncer.store.plans import read_live_containers

log = logger(__name__)
_OPEN = text(f"SELECT {columns(ProfileRow)} FROM profiles WHERE state = '{ASKED}' ORDER BY number LIMIT :most")


class OpenProfiles(NamedTuple):
    """Profiles that are asked for, the oldest first, and the containers that may be asked."""

    rows: Sequence[ProfileRow]
    containers: Mapping[str, LiveContainer]


class Decided(NamedTuple):
    """What is to be done about a profile; `progress`: how far its host is, in words."""

    row: ProfileRow
    decision: AttemptDecision
    progress: str = ""


class ProfileStore:
    """What the reconciler asks of the job store. `most`: profiles in one round."""

    def __init__(self, engine: Engine, most: int = 1_000) -> None:
        self._engine = engine
        self._most = most

    def read(self) -> OpenProfiles:
        """All that a round reads, of one moment. Raises Unavailable."""
        with snapshot(self._engine) as connection:
            rows = read_all(connection, ProfileRow, _OPEN, {"most": self._most})
            return OpenProfiles(rows, read_live_containers(connection) if rows else {})

    def write(self, decided: Sequence[Decided], leader_epoch: int) -> None:
        """Writes all of it or nothing. Raises Fenced, Unavailable."""
        with leases.fenced(self._engine, STATE_SYNCER, leader_epoch) as connection:
            for each in decided:
                _write(connection, *each)


def _write(connection: Connection, row: ProfileRow, decision: AttemptDecision, progress: str) -> None:
    match decision:
        case Assign(container):
            _update(connection, row, {"container": container, "attempts": row.attempts + 1})
        case Done(ProfileReport() as report):
            log.info("profile done", job=row.job, profile=row.number, rows_per_second=report.rows_per_second)
            _end(connection, row, DONE, "", as_jsonb(report.model_dump(mode="json")))
        case GiveUp(why):
            log.warning("profile failed", job=row.job, profile=row.number, error=why)
            _end(connection, row, FAILED, why, None)
        case Retry(why):
            log.warning("profile stalls", job=row.job, profile=row.number, error=why)
            _update(connection, row, {"container": None, "detail": clean(why)})
        case Ask() if progress and progress != row.detail:
            _update(connection, row, {"detail": clean(progress)})


def _end(connection: Connection, row: ProfileRow, state: str, detail: str, report: object) -> None:
    _update(connection, row, {"state": state, "detail": clean(detail), "report": report}, "finished_at = now()")


def _update(connection: Connection, row: ProfileRow, fresh: Mapping[str, Any], *further: str) -> None:
    """Nothing is done to a row that has ended by now, or is gone with its job."""
    changes = ", ".join([*(f"{name} = :{name}" for name in fresh), *further])
    statement = text(f"UPDATE profiles SET {changes} WHERE number = :number AND state = '{ASKED}'")
    connection.execute(statement, {**fresh, "number": row.number})
