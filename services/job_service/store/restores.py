"""What a restore brings to the job's places: rows since its savepoint, and rows that other jobs have there."""

from __future__ import annotations

from sqlalchemy import Connection

from penstock.store.savepoints import SavepointRow
from services.job_service.repeat_texts import require_no_reader, sentence
from services.job_service.repeats import Job, Left, Repeat, repeats
from services.job_service.savepoints import written_again, written_since
from services.job_service.store import doubled
from services.job_service.store.meeting import Asked, Meeting, complete
from services.job_service.store.readers import ReadersOf, newest_savepoints
from services.job_service.store.repeats import doubled_by
from services.job_service.writes import Layers


def judge(connection: Connection, asked: Asked, layers: Layers, saved: SavepointRow, *, allowed: bool) -> list[str]:
    """What to know of a restore of a job, which is locked as all flows are, from a savepoint: kept for who reads there
    later. Raises Conflict where others read, unless it is `allowed`."""
    job = asked.stored.name
    found = _found(connection, asked, layers, saved)
    doubled.forget_own(connection, job, asked.stored.created_at if _is_import(saved) else saved.created_at)
    if not found:
        return []
    if not allowed:
        readers = ReadersOf(connection, {each.place for each in found}).of({each.place for each in found}, job)
        require_no_reader(job, found, readers, newest_savepoints(connection, {each.job for each in found}))
    doubled.note(connection, doubled_by(job, found))
    return [sentence(job, found)]


def _found(connection: Connection, asked: Asked, layers: Layers, saved: SavepointRow) -> list[Repeat]:
    stored, after = asked.stored, asked.after
    known = {
        place: [left for left in met if not _is_yet_to_run(left, asked)]
        for place, met in Meeting(connection, {0: asked}, layers).known(0).items()
    }
    own = {saved.job, *([stored.name] if stored.running is not None else [])}
    at = None if _is_import(saved) else saved.created_at
    since = [left for place in known.values() for left in place if written_since(left, own, at)]
    # That application had stopped at its checkpoint: only what jobs have written since is written again.
    config = {} if _is_import(saved) and stored.running is None else saved.config or {}
    others = {place: [left for left in at_place if left.job not in own] for place, at_place in known.items()}
    before = None if stored.running is None else complete(stored, layers)
    job = Job(stored.name, stored.created_at, stored.running, before, goes_on=True)
    return [*written_again(config, after, since, saved.job), *repeats(job, after, others)]


def _is_import(saved: SavepointRow) -> bool:
    """Whether it is the checkpoint of another application: that is older than its savepoint, nobody knows how much."""
    return saved.checkpoint is not None


def _is_yet_to_run(left: Left, asked: Asked) -> bool:
    """Whether it is the job itself, which has written nothing."""
    return left.job == asked.stored.name and left.makes is not None and asked.stored.running is None
