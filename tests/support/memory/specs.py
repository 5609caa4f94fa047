"""The Task Service's ports on the in-memory store: `TaskServiceClient`'s and `TemplateStore`."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import orjson

from penstock.control.errors import Unavailable
from penstock.model.reports import TaskReportBatch
from penstock.tasks.loads import TaskLoad
from penstock.wire.cluster import Snapshot
from services.task_service.store.rows import Changes, StoredTemplate
from services.task_service.templates import Templates, everything
from tests.support.memory.store import MemoryPort, MemoryStore, ReportEntry, RunningEntry


class MemoryTaskService(MemoryPort):
    """A `TaskServiceClient` with the Task Service behind it, which knows every commit at once."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self._templates: Templates | None = None
        self._last_full: Snapshot | None = None

    def full(self) -> Snapshot | None:
        with self._transaction() as store:
            snapshot = snapshot_of(self._read(store), None)
        if snapshot == self._last_full:
            return None
        self._last_full = snapshot
        return snapshot

    def delta(self, after: int, wait_seconds: float) -> Snapshot:
        with self._transaction() as store:
            if after <= self._read(store).commit_number:
                store.news.wait_for(lambda: self._read(store).commit_number > after, wait_seconds)
            return snapshot_of(self._read(store), after)

    def report(self, batch: TaskReportBatch) -> None:
        """A report of a former incarnation is refused, which a client sees as Unavailable."""
        with self._transaction() as store:
            member = store.members.get(batch.container)
            if member is None or member.incarnation != batch.incarnation:
                raise Unavailable(f"{batch.container} is not registered, or has another life now")
            store.reports[batch.container] = ReportEntry(batch.incarnation, batch.commit_number, store.now())
            store.tasks[batch.container] = batch.tasks
            for task in batch.tasks:
                if task.load is not None:
                    load = TaskLoad(task.job, task.index, task.generation, task.load)
                    store.loads[task.job, task.index] = load

    def _read(self, store: MemoryStore) -> Templates:
        commit_number = store.counters["running_commit"]
        if self._templates is None or self._templates.commit_number != commit_number:
            self._templates = everything(self._templates, changes(store))
        return self._templates


class MemoryTemplateStore(MemoryPort):
    """As `services.task_service.store.port.TemplateStore`, without samples. `alerts`: job to reason."""

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

    def alert_waiting_tasks(self, after_seconds: float) -> None:
        with self._transaction():
            return

    def purge_samples(self, keep_days: int) -> int:
        with self._transaction():
            return 0


def changes(store: MemoryStore, after: int = -1) -> Changes:
    """As `services.task_service.store.port.TemplateStore.read`."""
    stored = tuple(stored_template(entry) for entry in store.running.values() if entry.commit_number > after)
    removed = {job: number for job, (number, _) in store.forgotten.items() if number > after}
    return Changes(store.counters["running_commit"], store.facts.sharding.count, stored, removed)


def stored_template(entry: RunningEntry) -> StoredTemplate:
    """A running row as the Task Service reads it."""
    row = entry.row
    return StoredTemplate(
        row.job,
        row.config.decode(),
        row.revision,
        row.generation,
        row.restarts,
        row.stopping,
        entry.commit_number,
        None if row.rollout is None else orjson.dumps(row.rollout).decode(),
        row.quiescing,
        row.level_ms,
    )


def snapshot_of(templates: Templates, after: int | None) -> Snapshot:
    """The answer of a Task Service: full without `after`, and when its store is behind `after`."""
    if after is not None and after > templates.commit_number:
        after = None
    return Snapshot(
        full=after is None,
        commit_number=templates.commit_number,
        shard_count=templates.shard_count,
        templates=templates.above(-1 if after is None else after),
        removed=() if after is None else templates.removed_above(after),
        unreadable=templates.unreadable(),
    )
