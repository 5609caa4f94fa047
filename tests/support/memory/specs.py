"""The Task Service's ports on the in-memory store: `TaskServiceClient`'s and `TemplateStore`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import orjson

from penstock.control.errors import Unavailable
from penstock.model.reports import TaskReport, TaskReportBatch, TaskReportChanges
from penstock.tasks.loads import TaskLoad
from penstock.tasks.spec import Coming
from penstock.wire.cluster import Snapshot
from services.task_service.encoding import Asked, encode
from services.task_service.store.rows import Changes, StoredTemplate
from services.task_service.templates import Templates, everything
from tests.support.memory.store import MemoryPort, MemoryStore, ReportEntry, RunningEntry


class MemoryTaskService(MemoryPort):
    """A `TaskServiceClient` with the Task Service behind it, which knows every commit at once."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self._templates: Templates | None = None

    def full(self, after: int = -1, store: str = "") -> Snapshot:
        with self._transaction() as cell:
            return self._answer(cell, after, store, full=True)

    def delta(self, after: int, wait_seconds: float, store: str = "") -> Snapshot:
        with self._transaction() as cell:
            if after <= self._read(cell).commit_number and store in ("", cell.incarnation):
                cell.news.wait_for(lambda: self._read(cell).commit_number > after, wait_seconds)
            return self._answer(cell, after, store, full=False)

    def _answer(self, cell: MemoryStore, after: int, store: str, *, full: bool) -> Snapshot:
        templates = self._read(cell)
        is_same = store in ("", cell.incarnation)
        if is_same and after > templates.commit_number:
            raise Unavailable(f"the job store is at commit {templates.commit_number}, the caller at {after}")
        return snapshot_of(templates, after if is_same and not full else None)

    def report(self, batch: TaskReportBatch, number: int | None = None) -> bool:
        """A report of a former incarnation, or one that comes late, is refused, which a client sees as Unavailable."""
        with self._transaction() as store:
            member = store.members.get(batch.container)
            if member is None or member.incarnation != batch.incarnation:
                raise Unavailable(f"{batch.container} is not registered, or has another life now")
            known = store.reports.get(batch.container)
            is_same_life = known is not None and known.incarnation == batch.incarnation
            if is_same_life and number is not None and (known.number or 0) >= number:
                raise Unavailable(f"a newer report of {batch.container} is stored")
            store.reports[batch.container] = ReportEntry(
                batch.incarnation, batch.commit_number, number, number, store.now()
            )
            store.tasks[batch.container] = batch.tasks
            _keep_loads(store, batch.tasks)
        return number is not None

    def report_changes(self, changes: TaskReportChanges) -> bool:
        """As `services.task_service.store.reports.save_changes`."""
        with self._transaction() as store:
            name = changes.container
            member, known = store.members.get(name), store.reports.get(name)
            if member is None or known is None or {member.incarnation, known.incarnation} != {changes.incarnation}:
                return False
            if known.base != changes.after or (known.number or 0) >= changes.number:
                return False
            base = changes.number if changes.has_news else known.base
            store.reports[name] = ReportEntry(
                known.incarnation, changes.commit_number, changes.number, base, store.now()
            )
            told = {(task.job, task.index): task for task in changes.tasks}
            kept = (task for task in store.tasks[name] if (task.job, task.index) not in {*told, *changes.ended})
            store.tasks[name] = (*kept, *told.values())
            _keep_loads(store, changes.tasks)
        return True

    def _read(self, store: MemoryStore) -> Templates:
        commit_number = store.counters["running_commit"]
        known = self._templates
        if known is not None and known.store != store.incarnation:
            known = None
        if known is None or known.commit_number != commit_number:
            self._templates = known = everything(known, changes(store))
        return known


def _keep_loads(store: MemoryStore, tasks: Iterable[TaskReport]) -> None:
    for task in tasks:
        if task.load is not None:
            store.loads[task.job, task.index] = TaskLoad(task.job, task.index, task.generation, task.load)


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


def changes(store: MemoryStore, after: int = -1) -> Changes:
    """As `services.task_service.store.port.TemplateStore.read`."""
    entries = [entry for entry in store.running.values() if entry.commit_number > after]
    stored = tuple(stored_template(entry)._replace(coming=_coming(store, entry)) for entry in entries)
    removed = {job: number for job, (number, _) in store.forgotten.items() if number > after}
    shard_count = store.facts.sharding.count
    return Changes(store.counters["running_commit"], shard_count, stored, removed, store.incarnation)


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


def _coming(store: MemoryStore, entry: RunningEntry) -> str | None:
    """What the plan of a rescale ends in, once its generation is known."""
    plan, row = store.plans.get(entry.row.job), entry.row
    if plan is None or plan.get("kind") == "rollout" or not (row.stopping or row.quiescing):
        return None
    if (plan["generation"] or 0) <= row.generation:
        return None
    return orjson.dumps({name: plan[name] for name in Coming.model_fields}).decode()


def snapshot_of(templates: Templates, after: int | None) -> Snapshot:
    """The answer of a Task Service: full without `after`."""
    return Snapshot.model_validate_json(encode(templates, Asked(after)).body)
