"""The port of the rollback reconciler to the job store, and its Postgres form."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol

from sqlalchemy import Engine

from penstock.control.logs import logger
from penstock.store import leases
from penstock.store.alerts import raise_alert
from penstock.store.engine import snapshot, transaction
from penstock.store.running import STATE_SYNCER
from penstock.tasks.rollout import LayerContent, Rejected
from services.state_syncer.store import rollouts
from services.state_syncer.store.rollouts import ROLLED_BACK

log = logger(__name__)


class Rejection(NamedTuple):
    """A job with a rejected package, the revision of its newest write, and its layers, lowest first."""

    job: str
    revision: int
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


class RollbackStore(Protocol):
    """What the reconciler needs of the job store."""

    def read(self, done: Mapping[str, int], limit: int) -> Rejections:
        """The rejected packages of one moment, by job, `limit` at most; of jobs that are not being deleted, nor `done`
        at the revision they have. A record that this version cannot read is logged and left out. Raises
        Unavailable."""
        ...

    def forget(self, jobs: Mapping[str, Rejected], leader_epoch: int) -> None:
        """Forgets these rejected packages and closes their alerts. A job is skipped when another package of it was
        rejected since. Raises Fenced, Unavailable."""
        ...

    def raise_alerts(self, refused: Mapping[str, str], leader_epoch: int) -> None:
        """Raises an alert for each package that cannot be rolled back, with the reason. Raises Fenced, Unavailable."""
        ...


class PostgresRollbackStore:
    """The port on Postgres."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def read(self, done: Mapping[str, int], limit: int) -> Rejections:
        """See the port."""
        with snapshot(self._engine) as connection:
            rows = rollouts.read_rejected(connection)
            fresh = ((row, parse_rejected(row.job, row.rejected)) for row in rows if done.get(row.job) != row.revision)
            wanted = list(islice(((row, rejected) for row, rejected in fresh if rejected is not None), limit))
            layers = rollouts.read_layers(connection, [row.job for row, _ in wanted]) if wanted else {}
        found = [Rejection(row.job, row.revision, rejected, layers[row.job]) for row, rejected in wanted]
        return Rejections({row.job for row in rows}, found)

    def forget(self, jobs: Mapping[str, Rejected], leader_epoch: int) -> None:
        """See the port."""
        with transaction(self._engine) as connection:
            leases.check_epoch(connection, STATE_SYNCER, leader_epoch)
            for job, rejected in jobs.items():
                rollouts.forget_rejected(connection, job, rejected)

    def raise_alerts(self, refused: Mapping[str, str], leader_epoch: int) -> None:
        """See the port."""
        with transaction(self._engine) as connection:
            leases.check_epoch(connection, STATE_SYNCER, leader_epoch)
            for job, why in refused.items():
                raise_alert(connection, ROLLED_BACK, job, f"the package cannot be rolled back: {why}", {"refused": why})
