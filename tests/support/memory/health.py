"""`HealthStore` on the in-memory store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from penstock.model.reports import TaskReport
from penstock.tasks.ownership import DRAINING
from services.shard_manager.health.failure_stats import CrashedTask
from services.shard_manager.health.faults import KINDS, Fault
from services.shard_manager.health.outliers import Place
from services.shard_manager.store.port import LEASE
from tests.support.memory.store import AlertEntry, MemoryPort


class MemoryHealthStore(MemoryPort):
    """As `services.shard_manager.store.health.HealthStore`."""

    def crashed(self) -> list[CrashedTask]:
        return [CrashedTask(task.job, task.index, name, task.crashes) for name, task in self._tasks() if task.crashes]

    def counts(self) -> dict[Place, int]:
        return Counter((task.job, name) for name, task in self._tasks())

    def report_ages(self) -> dict[str, float]:
        with self._transaction() as store:
            ages: dict[str, float] = {}
            for member in store.members.values():
                told = store.reports.get(member.name)
                is_of_this_life = told is not None and told.incarnation == member.incarnation
                reported_at = (told.reported_at or 0.0) if told is not None and is_of_this_life else 0.0
                if member.live:
                    ages[member.name] = store.now() - max(reported_at, store.registered_at.get(member.name, 0.0))
            return ages

    def _tasks(self) -> list[tuple[str, TaskReport]]:
        with self._transaction() as store:
            live = [name for name in store.tasks if name in store.members and store.members[name].live]
            return [(name, task) for name in live for task in store.tasks[name]]

    def set_aside(self, fault: Fault, availability: str, *, before: str, most: int, leader_epoch: int) -> bool:
        with self._transaction() as store:
            store.check_epoch(LEASE, leader_epoch)
            name = fault.container
            others = [each for each in store.set_aside - {name} if store.members[each].live]
            if len(others) >= most or store.members[name].availability != before:
                return False
            drain_until = store.wall_time() if availability == DRAINING else None
            store.set_availability(name, availability, drain_until=drain_until)
            store.set_aside.add(name)
            store.alerts.setdefault((fault.kind, name), AlertEntry(fault.message, fault.details))
            return True

    def sync_alerts(self, found: Collection[Fault], keep: Collection[str], leader_epoch: int) -> None:
        with self._transaction() as store:
            store.check_epoch(LEASE, leader_epoch)
            wanted = {(fault.kind, fault.container): AlertEntry(fault.message, fault.details) for fault in found}
            kept = {
                key: alert
                for key, alert in store.alerts.items()
                if key[0] not in KINDS or key in wanted or key[1] in keep
            }
            store.alerts = wanted | kept
