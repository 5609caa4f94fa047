"""The port of housekeeping to the job store, and its form on Postgres."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from sqlalchemy import Engine

from penstock.store import leases
from penstock.store.alerts import clear_alert, page, raise_alert
from penstock.store.engine import transaction
from services.shard_manager.moves.drains import DRAIN_OVERDUE, DrainAlert
from services.shard_manager.store import members
from services.shard_manager.store.port import LEASE

_MOST_ALERTS = 10_000


class HousekeepingStore(Protocol):
    """Every call is atomic and raises Unavailable, and Fenced once a newer leader was elected."""

    def sync_drain_alerts(self, found: Mapping[str, DrainAlert], leader_epoch: int) -> None:
        """Makes these, by container, the open alerts about drains; an alert that is open already is left alone."""
        ...

    def remove_lost(self, older_than_seconds: float, leader_epoch: int) -> frozenset[str]:
        """Deletes lost containers that were silent for so long and own no shard; returns their names."""
        ...


class PostgresHousekeepingStore:
    """The port on Postgres."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def sync_drain_alerts(self, found: Mapping[str, DrainAlert], leader_epoch: int) -> None:
        """See the port."""
        with transaction(self._engine) as connection:
            leases.check_epoch(connection, LEASE, leader_epoch)
            known = {alert.subject for alert in page(connection, limit=_MOST_ALERTS, kind=DRAIN_OVERDUE)}
            for container in sorted(known - found.keys()):
                clear_alert(connection, DRAIN_OVERDUE, container)
            for container in sorted(found.keys() - known):
                alert = found[container]
                raise_alert(connection, DRAIN_OVERDUE, container, alert.message, alert.details)

    def remove_lost(self, older_than_seconds: float, leader_epoch: int) -> frozenset[str]:
        """See the port."""
        with transaction(self._engine) as connection:
            leases.check_epoch(connection, LEASE, leader_epoch)
            return frozenset(members.remove_lost(connection, older_than_seconds))
