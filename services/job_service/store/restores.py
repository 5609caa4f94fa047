"""What a restore brings to the job's places: rows since its savepoint, and rows that other jobs have there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from penstock.model.jobs import StoredJob
from penstock.store.savepoints import SavepointRow
from services.job_service.repeat_texts import require_no_reader, sentence
from services.job_service.repeats import Job, Repeat, repeats
from services.job_service.savepoints import written_again, written_since
from services.job_service.store import doubled
from services.job_service.store.meeting import Asked, Meeting, complete
from services.job_service.store.readers import ReadersOf, newest_savepoints
from services.job_service.store.repeats import doubled_by
from services.job_service.writes import Layers


def judge(
    connection: Connection,
    stored: StoredJob,
    layers: Layers,
    after: Mapping[str, Any],
    saved: SavepointRow,
    *,
    allowed: bool,
) -> list[str]:
    """What to know of a restore of a job, which is locked as all flows are, from a savepoint: kept for who reads there
    later. `after`: its complete configuration. Raises Conflict where others read, unless it is `allowed`."""
    found = _found(connection, stored, layers, after, saved)
    doubled.forget_own(connection, stored.name, saved.created_at)
    if not found:
        return []
    if not allowed:
        places = {each.place for each in found}
        readers = ReadersOf(connection, places).of(places, stored.name)
        require_no_reader(stored.name, found, readers, newest_savepoints(connection, {each.job for each in found}))
    doubled.note(connection, doubled_by(stored.name, found))
    return [sentence(stored.name, found)]


def _found(
    connection: Connection, stored: StoredJob, layers: Layers, after: Mapping[str, Any], saved: SavepointRow
) -> list[Repeat]:
    known = Meeting(connection, {0: Asked(stored, after)}, layers).known(0)
    own = {saved.job, *([stored.name] if stored.running is not None else [])}
    since = [left for place in known.values() for left in place if written_since(left, own, saved.created_at)]
    others = {place: [left for left in at if left.job not in own] for place, at in known.items()}
    before = None if stored.running is None else complete(stored, layers)
    job = Job(stored.name, stored.created_at, stored.running, before, goes_on=True)
    return [*written_again(saved.config or {}, after, since, saved.job), *repeats(job, after, others)]
