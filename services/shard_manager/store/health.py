"""The port of the health reconciler to the job store."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Engine, text

from penstock.store import leases
from penstock.store.alerts import raise_alert, replace_alerts
from penstock.store.availability import SHARD_MANAGER, set_availability
from penstock.store.engine import transaction
from penstock.tasks.ownership import DRAINING, OPEN
from services.shard_manager.health.failure_stats import CrashedTask
from services.shard_manager.health.faults import KINDS, Fault
from services.shard_manager.health.outliers import Place
from services.shard_manager.store.port import LEASE

_CRASHED = text(
    """
    SELECT t.job, t.index, t.container, t.crashes FROM tasks t JOIN containers c ON c.name = t.container
    WHERE c.state = 'live' AND t.crashes > 0
    """
)
_COUNTS = text(
    """
    SELECT t.job, t.container, count(*) FROM tasks t JOIN containers c ON c.name = t.container
    WHERE c.state = 'live' GROUP BY t.job, t.container
    """
)
_COUNT_OTHERS_ASIDE = text(
    """
    SELECT count(*) FROM containers
    WHERE name <> :name AND state = 'live' AND availability <> :open AND availability_by = :author
    """
)
_REPORT_AGES = text(
    """
    SELECT c.name, CAST(extract(epoch FROM clock_timestamp() - GREATEST(r.reported_at, c.registered_at))
        AS double precision) AS age_seconds
    FROM containers c LEFT JOIN reports r ON r.container = c.name AND r.incarnation = c.incarnation
    WHERE c.state = 'live'
    """
)
_NOW = text("SELECT clock_timestamp()")


class HealthStore:
    """Every call is atomic and raises Unavailable. Calls with a leader epoch raise Fenced once a newer leader was
    elected."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def crashed(self) -> list[CrashedTask]:
        """The tasks of live containers that, by the last report, crashed and were not healthy since."""
        with transaction(self._engine) as connection:
            return [CrashedTask(*row) for row in connection.execute(_CRASHED)]

    def counts(self) -> dict[Place, int]:
        """The number of tasks of live containers in the last reports, by job and container."""
        with transaction(self._engine) as connection:
            return {(job, container): count for job, container, count in connection.execute(_COUNTS)}

    def report_ages(self) -> dict[str, float]:
        """Seconds since the newest report of each live container, or since it registered when it has none."""
        with transaction(self._engine) as connection:
            return {row.name: row.age_seconds for row in connection.execute(_REPORT_AGES)}

    def set_aside(self, fault: Fault, availability: str, *, before: str, most: int, leader_epoch: int) -> bool:
        """Makes a container CORDONED, or DRAINING with a limit that has passed, and raises the alert.

        Returns whether it was done. Nothing is done if the container's availability is not `before`, or if the Shard
        Manager has already set `most` other live containers aside.
        """
        name, reason = fault.container, fault.message
        with leases.fenced(self._engine, LEASE, leader_epoch) as connection:
            others = {"name": name, "open": OPEN, "author": SHARD_MANAGER}
            if connection.execute(_COUNT_OTHERS_ASIDE, others).scalar_one() >= most:
                return False
            until = connection.execute(_NOW).scalar_one() if availability == DRAINING else None
            if not set_availability(connection, name, availability, reason=reason, drain_until=until, only_if=before):
                return False
            raise_alert(connection, fault.kind, name, fault.message, fault.details)
            return True

    def sync_alerts(self, found: Collection[Fault], keep: Collection[str], leader_epoch: int) -> None:
        """Raises the alerts of `found` that are not open. Clears the other alerts of `KINDS`, except those about the
        containers to `keep`."""
        wanted = {(fault.kind, fault.container): (fault.message, fault.details) for fault in found}
        with leases.fenced(self._engine, LEASE, leader_epoch) as connection:
            replace_alerts(connection, KINDS, wanted, keep=keep)
