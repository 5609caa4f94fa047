"""The port of the rollback reconciler to the job store."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, text

from penstock.control.logs import logger
from penstock.model.alerts import AlertKind
from penstock.store import leases
from penstock.store.alerts import Found, replace_alerts
from penstock.store.engine import snapshot
from penstock.store.running import STATE_SYNCER
from penstock.tasks.rollout import LayerContent, Rejected
from services.state_syncer.store.rollouts import clear_rejected

log = logger(__name__)

_REJECTED = text(
    """
    SELECT s.job, j.revision, s.rejected
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


class Mark(NamedTuple):
    """What tells whether there is anything new about a rejected package: the job's newest write, and the record."""

    revision: int
    recorded: Mapping[str, Any]


class Rejection(NamedTuple):
    """A job with a rejected package, and its layers, lowest first."""

    job: str
    mark: Mark
    rejected: Rejected
    layers: Sequence[LayerContent]


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

    def read(self, done: Mapping[str, Mark], limit: int) -> Rejections:
        """The rejected packages of one moment, by job, `limit` at most; of jobs that are not being deleted, nor `done`
        as they are now. A record that this version cannot read is logged and left out. Raises
        Unavailable."""
        with snapshot(self._engine) as connection:
            rows = connection.execute(_REJECTED).all()
            new = [row for row in rows if done.get(row.job) != Mark(row.revision, row.rejected)]
            fresh = ((row, parse_rejected(row.job, row.rejected)) for row in new)
            wanted = list(islice(((row, rejected) for row, rejected in fresh if rejected is not None), limit))
            layers = _read_layers(connection, [row.job for row, _ in wanted]) if wanted else {}
        found = [
            Rejection(row.job, Mark(row.revision, row.rejected), rejected, layers[row.job]) for row, rejected in wanted
        ]
        return Rejections({row.job for row in rows}, found)

    def forget(self, jobs: Mapping[str, Rejected], leader_epoch: int) -> None:
        """Forgets these rejected packages and closes their alerts. A job is skipped when another package of it was
        rejected since. Raises Fenced, Unavailable."""
        with leases.fenced(self._engine, STATE_SYNCER, leader_epoch) as connection:
            for job, rejected in jobs.items():
                if connection.execute(_FORGET, {"job": job, "seen": rejected.model_dump_json()}).rowcount:
                    clear_rejected(connection, [job])

    def alert(self, refused: Mapping[str, str], done: Mapping[str, Rejected], leader_epoch: int) -> None:
        """Raises an alert for each rollback that was refused, with the reason, and for each that is done; that closes
        the one that it was refused. One that is open and says the same is left alone. Raises Fenced, Unavailable."""
        about_refused: Found = {
            (AlertKind.ROLLBACK_REFUSED, job): (f"the package is not rolled back: {why}", {"refused": why})
            for job, why in refused.items()
        }
        about_done: Found = {
            (AlertKind.ROLLED_BACK, job): (f"the package is rolled back: {each.about(job)}", each.details)
            for job, each in done.items()
        }
        with leases.fenced(self._engine, STATE_SYNCER, leader_epoch) as connection:
            kind, jobs = [AlertKind.ROLLBACK_REFUSED], [*refused, *done]
            replace_alerts(connection, kind, about_refused, refresh=True, only=jobs)
            replace_alerts(connection, [AlertKind.ROLLED_BACK], about_done, refresh=True, only=list(done))


def _read_layers(connection: Connection, jobs: Sequence[str]) -> dict[str, list[LayerContent]]:
    """The layers of jobs, lowest first."""
    found: dict[str, list[LayerContent]] = {job: [] for job in jobs}
    for job, *layer in connection.execute(_LAYERS, {"jobs": list(jobs)}):
        found[job].append(LayerContent(*layer))
    return found
