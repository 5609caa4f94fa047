"""`HousekeepingStore` on the in-memory store."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.model.alerts import AlertKind
from services.shard_manager.moves.drains import ContainerAlert
from services.shard_manager.store.port import LEASE
from tests.support.memory.store import AlertEntry, MemoryPort


class MemoryHousekeepingStore(MemoryPort):
    """As `services.shard_manager.store.housekeeping.HousekeepingStore`."""

    def sync_alerts(self, kind: AlertKind, found: Mapping[str, ContainerAlert], leader_epoch: int) -> None:
        with self._transaction() as store:
            store.check_epoch(LEASE, leader_epoch)
            wanted = {(kind, container): AlertEntry(alert.message, alert.details) for container, alert in found.items()}
            kept = {key: alert for key, alert in store.alerts.items() if key[0] != kind or key in wanted}
            store.alerts = wanted | kept

    def remove_lost(self, older_than_seconds: float, leader_epoch: int) -> frozenset[str]:
        with self._transaction() as store:
            store.check_epoch(LEASE, leader_epoch)
            return frozenset(store.remove_lost(older_than_seconds))
