"""The port of the rollback reconciler to the job store."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, text

from penstock.control.logs import logger
from penstock.model.alerts import AlertKind
from penstock.store import leases
from penstock.store.alerts import clear_alerts, raise_alert
from penstock.store.engine import snapshot
from penstock.store.running import STATE_SYNCER
from penstock.tasks.rollout import LayerContent, Rejected
from services.state_syncer.store.rollouts import clear_rejected

log = logger(__name__)

_REJECTED = text(
    """
    SELECT s.job, j.revision, s.rejected, EXISTS (
            SELECT FROM alerts a WHERE a.kind = :refused AND a.subject = s.job AND a.cleared_at IS NULL) AS is_refused
    FROM sync_state s JOIN jobs j ON j.name = s.job
    WHERE s.rejected IS NOT NULL AND NOT j.deleting ORDER BY s.job
    """
)
_LAYERS = text(
    """
    SELECT e.job, e.layer, e.config, e.version FROM expected_layers e JOIN layers l ON l.name = e.layer
    WHERE e.job = ANY(:jobs) ORDER BY e.job, l.rank
    """
)
_FORGET = text("UPDATE sync_state SET rejected = NULL WHERE job = :job AND rejected = CAST(:seen AS jsonb)")


class Rejection(NamedTuple):
    """A job with a rejected package, the revision of its newest write, and its layers, lowest first. `is_refused`: an
    alert is open that its rollback was refused."""

    job: str
    revision: int
    rejected: Rejected
    layers: Sequence[LayerContent]
    is_refused: bool = False


class Rejections(NamedTuple):
    """All `jobs` with a rejected package, and those that were asked for."""

    jobs: Collection[str]
    found: Sequence[Rejection]


def parse_rejected(job: str, recorded: Mapping[str, Any]) -> Rejected | None:
    """The recorded package; None, with a line in the log, where this version cannot read the record."""
    try:
        return Rejected.model_validate(recorded)
    except ValueError as error:
        log.warning("a rejected package cannot be read", job=job, error=str(error))
        return None


class RollbackStore:
    """What the reconciler asks of the job store."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def read(self, done: Mapping[str, int], limit: int) -> Rejections:
        """The rejected packages of one moment, by job, `limit` at most; of jobs that are not being deleted, nor `done`
        at the revision they have. A record that this version cannot read is logged and left out. Raises
        Unavailable."""
        with snapshot(self._engine) as connection:
            rows = connection.execute(_REJECTED, {"refused": AlertKind.ROLLBACK_REFUSED.value}).all()
            fresh = ((row, parse_rejected(row.job, row.rejected)) for row in rows if done.get(row.job) != row.revision)
            wanted = list(islice(((row, rejected) for row, rejected in fresh if rejected is not None), limit))
            layers = _read_layers(connection, [row.job for row, _ in wanted]) if wanted else {}
        found = [
            Rejection(row.job, row.revision, rejected, layers[row.job], row.is_refused) for row, rejected in wanted
        ]
        return Rejections({row.job for row in rows}, found)

    def forget(self, jobs: Mapping[str, Rejected], leader_epoch: int) -> None:
        """Forgets these rejected packages and closes their alerts. A job is skipped when another package of it was
        rejected since. Raises Fenced, Unavailable."""
        with leases.fenced(self._engine, STATE_SYNCER, leader_epoch) as connection:
            for job, rejected in jobs.items():
                if connection.execute(_FORGET, {"job": job, "seen": rejected.model_dump_json()}).rowcount:
                    clear_rejected(connection, [job])

    def alert(self, refused: Mapping[str, str], accepted: Collection[str], leader_epoch: int) -> None:
        """Raises an alert for each rollback that was refused, with the reason, and closes those of jobs whose layer is
        as it should be. Raises Fenced, Unavailable."""
        with leases.fenced(self._engine, STATE_SYNCER, leader_epoch) as connection:
            for job, why in refused.items():
                message = f"the package cannot be rolled back: {why}"
                raise_alert(connection, AlertKind.ROLLBACK_REFUSED, job, message, {"refused": why})
            clear_alerts(connection, AlertKind.ROLLBACK_REFUSED, accepted)


def _read_layers(connection: Connection, jobs: Sequence[str]) -> dict[str, list[LayerContent]]:
    """The layers of jobs, lowest first."""
    found: dict[str, list[LayerContent]] = {job: [] for job in jobs}
    for job, *layer in connection.execute(_LAYERS, {"jobs": list(jobs)}):
        found[job].append(LayerContent(*layer))
    return found
