"""`TemplateStore` on the in-memory store."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from penstock.tasks.stored import Changes
from tests.support.memory.specs import changes
from tests.support.memory.store import MemoryPort, MemoryStore


class MemoryTemplateStore(MemoryPort):
    """As `services.task_service.store.PostgresTemplateStore`, without samples. `alerts`: job to reason."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self.alerts: dict[str, str] = {}

    def read(self, after: int = -1) -> Changes:
        with self._transaction() as store:
            return changes(store, after)

    def alert(self, broken: Mapping[str, str], mended: Collection[str]) -> None:
        with self._transaction():
            kept = {job: reason for job, reason in self.alerts.items() if job not in mended}
            self.alerts = {**kept, **broken}

    def purge_samples(self, keep_days: int) -> int:
        with self._transaction():
            return 0
