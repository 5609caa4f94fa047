"""The port of housekeeping to the job store."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Engine

from penstock.model.alerts import AlertKind
from penstock.store import leases
from penstock.store.alerts import replace_alerts
from services.shard_manager.moves.drains import ContainerAlert
from services.shard_manager.store import members
from services.shard_manager.store.port import LEASE


class HousekeepingStore:
    """Every call is atomic and raises Unavailable, and Fenced once a newer leader was elected."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def sync_alerts(self, kind: AlertKind, found: Mapping[str, ContainerAlert], leader_epoch: int) -> None:
        """Makes these, by container, the open alerts of a kind; an alert that is open already is left alone."""
        wanted = {(kind, container): (alert.message, alert.details) for container, alert in found.items()}
        with leases.fenced(self._engine, LEASE, leader_epoch) as connection:
            replace_alerts(connection, (kind,), wanted)

    def remove_lost(self, older_than_seconds: float, leader_epoch: int) -> frozenset[str]:
        """Deletes lost containers that were silent for so long and own no shard; returns their names."""
        with leases.fenced(self._engine, LEASE, leader_epoch) as connection:
            return frozenset(members.remove_lost(connection, older_than_seconds))
