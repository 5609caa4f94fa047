"""The port of the health reconciler to the job store, and its form on Postgres."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from sqlalchemy import Connection, Engine, func, select

from penstock.store import leases
from penstock.store.alerts import clear_alert, raise_alert
from penstock.store.availability import SHARD_MANAGER, set_availability
from penstock.store.cluster_tables import containers, tasks
from penstock.store.engine import transaction
from penstock.store.tables import alerts
from penstock.tasks.ownership import DRAINING, OPEN
from services.shard_manager.health.failure_stats import CrashedTask
from services.shard_manager.health.faults import KINDS, Fault
from services.shard_manager.health.outliers import Place
from services.shard_manager.store.port import LEASE


class HealthStore(Protocol):
    """Every call is atomic and raises Unavailable. Calls with a leader epoch raise Fenced once a newer leader was
    elected."""

    def crashed(self) -> list[CrashedTask]:
        """The tasks of live containers that, by the last report, crashed and were not healthy since."""
        ...

    def counts(self) -> dict[Place, int]:
        """The number of tasks of live containers in the last reports, by job and container."""
        ...

    def set_aside(self, fault: Fault, availability: str, *, before: str, most: int, leader_epoch: int) -> bool:
        """Makes a container CORDONED, or DRAINING with a limit that has passed, and raises the alert.

        Returns whether it was done. Nothing is done if the container's availability is not `before`, or if the Shard
        Manager has already set `most` other live containers aside.
        """
        ...

    def sync_alerts(self, found: Collection[Fault], keep: Collection[str], leader_epoch: int) -> None:
        """Raises the alerts of `found` that are not open. Clears the other alerts of `KINDS`, except those about the
        containers to `keep`."""
        ...


_REPORTED = tasks.join(containers, containers.c.name == tasks.c.container)
_IS_LIVE = containers.c.state == "live"


class PostgresHealthStore:
    """The port on Postgres."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def crashed(self) -> list[CrashedTask]:
        """See the port."""
        row = tasks.c
        found = select(row.job, row.index, row.container, row.crashes).select_from(_REPORTED)
        with transaction(self._engine) as connection:
            rows = connection.execute(found.where(_IS_LIVE, row.crashes > 0)).all()
        return [CrashedTask(*each) for each in rows]

    def counts(self) -> dict[Place, int]:
        """See the port."""
        place = tasks.c.job, tasks.c.container
        found = select(*place, func.count()).select_from(_REPORTED).where(_IS_LIVE).group_by(*place)
        with transaction(self._engine) as connection:
            return {(job, container): count for job, container, count in connection.execute(found).all()}

    def set_aside(self, fault: Fault, availability: str, *, before: str, most: int, leader_epoch: int) -> bool:
        """See the port."""
        with transaction(self._engine) as connection:
            leases.check_epoch(connection, LEASE, leader_epoch)
            if _others_aside(connection, fault.container) >= most:
                return False
            is_drained = availability == DRAINING
            until = connection.execute(select(func.clock_timestamp())).scalar_one() if is_drained else None
            name, reason = fault.container, fault.message
            if not set_availability(connection, name, availability, reason=reason, drain_until=until, only_if=before):
                return False
            raise_alert(connection, fault.kind, name, fault.message, fault.details)
            return True

    def sync_alerts(self, found: Collection[Fault], keep: Collection[str], leader_epoch: int) -> None:
        """See the port."""
        is_open = (alerts.c.kind.in_(KINDS), alerts.c.cleared_at.is_(None))
        wanted = {(fault.kind, fault.container): fault for fault in found}
        with transaction(self._engine) as connection:
            leases.check_epoch(connection, LEASE, leader_epoch)
            known = {tuple(row) for row in connection.execute(select(alerts.c.kind, alerts.c.subject).where(*is_open))}
            for kind, subject in sorted(known - wanted.keys()):
                if subject not in keep:
                    clear_alert(connection, kind, subject)
            for key in sorted(wanted.keys() - known):
                raise_alert(connection, *key, wanted[key].message, wanted[key].details)


def _others_aside(connection: Connection, container: str) -> int:
    row = containers.c
    is_aside = (
        row.name != container,
        row.state == "live",
        row.availability != OPEN,
        row.availability_by == SHARD_MANAGER,
    )
    return connection.execute(select(func.count()).select_from(containers).where(*is_aside)).scalar_one()
