"""`HealthStore` on the in-memory store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from penstock.tasks.ownership import DRAINING
from penstock.wire.cluster import TaskReport
from services.shard_manager.gray import Place
from services.shard_manager.health_store import KINDS, Illness
from services.shard_manager.ledger import CrashedTask
from services.shard_manager.store import LEASE
from tests.support.memory.store import AlertEntry, MemoryPort


class MemoryHealthStore(MemoryPort):
    """As `services.shard_manager.health_store.PostgresHealthStore`."""

    def crashed(self) -> list[CrashedTask]:
        return [CrashedTask(task.job, task.index, name, task.crashes) for name, task in self._tasks() if task.crashes]

    def counts(self) -> dict[Place, int]:
        return Counter((task.job, name) for name, task in self._tasks())

    def _tasks(self) -> list[tuple[str, TaskReport]]:
        with self._transaction() as store:
            live = [name for name in store.tasks if name in store.members and store.members[name].live]
            return [(name, task) for name in live for task in store.tasks[name]]

    def set_aside(self, illness: Illness, availability: str, *, before: str, most: int, leader_epoch: int) -> bool:
        with self._transaction() as store:
            store.check_epoch(LEASE, leader_epoch)
            name = illness.container
            others = [each for each in store.set_aside - {name} if store.members[each].live]
            if len(others) >= most or store.members[name].availability != before:
                return False
            drain_until = store.wall_time() if availability == DRAINING else None
            store.set_availability(name, availability, drain_until=drain_until)
            store.set_aside.add(name)
            store.alerts.setdefault((illness.kind, name), AlertEntry(illness.message, illness.details))
            return True

    def settle_alerts(self, found: Collection[Illness], keep: Collection[str], leader_epoch: int) -> None:
        with self._transaction() as store:
            store.check_epoch(LEASE, leader_epoch)
            wanted = {
                (illness.kind, illness.container): AlertEntry(illness.message, illness.details) for illness in found
            }
            kept = {
                key: alert
                for key, alert in store.alerts.items()
                if key[0] not in KINDS or key in wanted or key[1] in keep
            }
            store.alerts = wanted | kept
