"""`SavepointStore` on the in-memory store, and what the Job Service writes of savepoints and restores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import orjson

from penstock.store.running import STATE_SYNCER
from penstock.store.savepoints import ASKED, DELETING, FAILED, READY, SavepointRow
from penstock.tasks.redistribution import SavepointName
from penstock.tasks.savepoint import SavepointReport
from services.state_syncer.decide.progress import Restore
from services.state_syncer.host_tasks.next_attempt import Assign, AttemptDecision, GiveUp, LiveContainer, Retry
from services.state_syncer.host_tasks.outcomes import Done
from services.state_syncer.savepoints.store import Decided, OpenSavepoints, Running
from tests.support.memory.store import MemoryPort, MemoryStore

_MADE = datetime(2026, 1, 1, tzinfo=UTC)


def ask_for_savepoint(store: MemoryStore, job: str) -> SavepointRow:
    """A new savepoint of the job, with a name of its own."""
    number = store.next_number("savepoint")
    absent: dict[str, Any] = dict.fromkeys(
        ("generation", "revision", "config", "container", "tasks", "bytes", "finished_at")
    )
    row = SavepointRow(
        number=number,
        job=job,
        name=f"s{number}",
        state=ASKED,
        detail="",
        attempts=0,
        author="test",
        reason="",
        created_at=_MADE,
        **absent,
    )
    store.savepoints[number] = row
    return row


def newest(store: MemoryStore, job: str, state: str = READY) -> SavepointRow | None:
    """The newest savepoint of a job that is in a state."""
    found = [row for row in store.savepoints.values() if (row.job, row.state) == (job, state)]
    return found[-1] if found else None


def is_waited_for(store: MemoryStore, savepoint: SavepointRow) -> bool:
    """Whether a restore from it is not done yet."""
    name = (savepoint.job, savepoint.name)
    return any((each.savepoint.job, each.savepoint.name) == name for each in store.restores.values())


def ask_to_delete(store: MemoryStore, savepoint: SavepointRow) -> None:
    """The savepoint is to go; the Job Service refuses that while a restore waits for it."""
    if not is_waited_for(store, savepoint):
        store.savepoints[savepoint.number] = _to_go(savepoint)


def ask_for_restore(store: MemoryStore, job: str, savepoint: SavepointRow) -> None:
    """The job is to go on from a savepoint that is ready, and from no other asked for before."""
    if savepoint.generation is None or savepoint.config is None:
        raise ValueError(f"{savepoint.name} is not ready")
    number = store.next_number("restore")
    source = SavepointName(job=savepoint.job, name=savepoint.name, number=savepoint.number)
    config = dict(savepoint.config)
    store.restores[job] = Restore(number=number, savepoint=source, generation=savepoint.generation, config=config)


class MemorySavepointStore(MemoryPort):
    """As `services.state_syncer.savepoints.store.SavepointStore`; all savepoints are of one age."""

    def expire(self, leader_epoch: int, *, count: int, seconds: float | None) -> int:
        with self._transaction() as store:
            store.check_epoch(STATE_SYNCER, leader_epoch)
            places: Counter[tuple[str, str]] = Counter()
            late = []
            for row in sorted(store.savepoints.values(), key=lambda row: -row.number):
                places[row.job, row.state] += 1
                is_over = row.state in (READY, FAILED) and places[row.job, row.state] > count
                late += [row] if is_over and not is_waited_for(store, row) else []
            store.savepoints |= {row.number: _to_go(row) for row in late}
            return len(late)

    def read(self) -> OpenSavepoints:
        with self._transaction() as store:
            rows = [row for row in store.savepoints.values() if row.state in (ASKED, DELETING)]
            containers = {
                member.name: LiveContainer(member.url, member.offers())
                for member in store.members.values()
                if member.live
            }
            return OpenSavepoints(rows, _running(store), _earlier(store), containers)

    def write(self, decided: Sequence[Decided], leader_epoch: int) -> None:
        with self._transaction() as store:
            store.check_epoch(STATE_SYNCER, leader_epoch)
            for row, decision, running in decided:
                held = store.savepoints.get(row.number)
                if held is not None and held.state == row.state:
                    _write(store, row, decision, running)


def _write(store: MemoryStore, row: SavepointRow, decision: AttemptDecision, running: Running | None) -> None:
    match decision:
        case Assign(container):
            fresh = replace(row, container=container, attempts=row.attempts + 1)
            if row.state == ASKED and row.generation is None and running is not None:
                fresh = replace(fresh, config=running.config, revision=running.revision, generation=running.generation)
        case Done(SavepointReport() as report) if row.state == ASKED:
            fresh = replace(row, state=READY, tasks=[task.model_dump(mode="json") for task in report.tasks])
        case GiveUp(why):
            fresh = replace(row, state=FAILED, detail=why)
        case Retry(why):
            fresh = replace(row, container=None, detail=why)
        case Done():
            del store.savepoints[row.number]
            return
        case _:
            return
    store.savepoints[row.number] = fresh


def _to_go(row: SavepointRow) -> SavepointRow:
    return replace(row, state=DELETING, detail="", container=None, attempts=0)


def _running(store: MemoryStore) -> dict[str, Running]:
    return {
        job: Running(orjson.loads(entry.row.config), entry.row.revision, entry.row.generation, entry.row.started)
        for job, entry in store.running.items()
    }


def _earlier(store: MemoryStore) -> dict[tuple[str, int], list[str]]:
    names: dict[tuple[str, int], list[str]] = {}
    for row in sorted(store.savepoints.values(), key=lambda row: -row.number):
        if row.state == READY and row.checkpoint is None:
            names.setdefault((row.job, row.generation or 0), []).append(row.name)
    return names
