"""The rollback keeper's port to the job store, and its Postgres form."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, Protocol

from sqlalchemy import Engine

from penstock.store import leases, rollouts
from penstock.store.alerts import raise_alert
from penstock.store.engine import snapshot, transaction
from penstock.store.rollouts import ROLLED_BACK
from penstock.store.running import STATE_SYNCER
from penstock.tasks.rollout import LayerContent, Rejected


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


class RollbackStore(Protocol):
    """What the keeper needs of the job store."""

    def read(self, done: Mapping[str, int], limit: int) -> Rejections:
        """The rejected packages of one moment, by job, `limit` at most; of jobs that are not being deleted, nor `done`
        at the revision they have. Raises Unavailable."""
        ...

    def forget(self, jobs: Mapping[str, Rejected], leader_epoch: int) -> None:
        """Nothing holds these packages back any more; their alerts are closed. A job of which another package was
        rejected since is left alone. Raises Fenced, Unavailable."""
        ...

    def tell(self, refused: Mapping[str, str], leader_epoch: int) -> None:
        """Says in the alerts why packages cannot be rolled back. Raises Fenced, Unavailable."""
        ...


class PostgresRollbackStore:
    """The port on Postgres."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def read(self, done: Mapping[str, int], limit: int) -> Rejections:
        """See the port."""
        with snapshot(self._engine) as connection:
            rows = rollouts.read_rejected(connection)
            wanted = list(islice((row for row in rows if done.get(row.job) != row.revision), limit))
            layers = rollouts.read_layers(connection, [row.job for row in wanted]) if wanted else {}
        found = [
            Rejection(row.job, row.revision, Rejected.model_validate(row.rejected), layers[row.job]) for row in wanted
        ]
        return Rejections({row.job for row in rows}, found)

    def forget(self, jobs: Mapping[str, Rejected], leader_epoch: int) -> None:
        """See the port."""
        with transaction(self._engine) as connection:
            leases.check_epoch(connection, STATE_SYNCER, leader_epoch)
            for job, rejected in jobs.items():
                rollouts.forget_rejected(connection, job, rejected)

    def tell(self, refused: Mapping[str, str], leader_epoch: int) -> None:
        """See the port."""
        with transaction(self._engine) as connection:
            leases.check_epoch(connection, STATE_SYNCER, leader_epoch)
            for job, why in refused.items():
                raise_alert(connection, ROLLED_BACK, job, f"the package cannot be rolled back: {why}", {"refused": why})
