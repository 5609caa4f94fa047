"""Where jobs have left rows, and whether a write may bring such rows once more."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection, text

from penstock.config.validate import read_merged
from penstock.control.errors import InvalidConfig, UserError
from penstock.model.jobs import Action, Change, StoredJob
from penstock.store.json import as_json
from services.job_service.repeats import Job, Left, Repeat, left_by, places_begun, repeats, require_no_reader, sentence
from services.job_service.store import flows
from services.job_service.writes import Layers
from services.job_service.writes import expected as merged_of

_MOST_NAMED = 5
_KNOWN = text("SELECT place, job, reads, left_at FROM left_outputs WHERE place = ANY(:places)")
_RESTORED = text("SELECT job FROM restores WHERE job = ANY(:jobs)")
_NOTE = text(
    """
    INSERT INTO left_outputs (place, job, reads, generation)
    SELECT place, job, reads, coalesce(running.generation, 0)
    FROM jsonb_to_recordset(CAST(:left AS jsonb)) AS new(place text, job text, reads text[])
        LEFT JOIN running USING (job)
    ON CONFLICT (place, job) DO UPDATE SET generation = excluded.generation, left_at = now(),
        reads = ARRAY(SELECT DISTINCT unnest(left_outputs.reads || excluded.reads) ORDER BY 1)
    """
)


class Verdict(NamedTuple):
    """Of changes, given by position: why some must not be, and what to know of others that may bring rows twice."""

    refused: dict[int, UserError]
    notes: dict[int, str]


def judge(
    connection: Connection,
    changes: Mapping[int, Change],
    allowed: Collection[int],
    jobs: Mapping[str, StoredJob],
    layers: Layers,
) -> Verdict:
    """None of those that are `allowed` to repeat rows is refused."""
    asked = {at: (jobs[change.job], change.merged) for at, change in changes.items() if change.merged is not None}
    known = _known(connection, asked.values())
    verdict = Verdict({}, {})
    for at, (stored, after) in asked.items() if known else ():
        found = _found(connection, stored, layers, after, known)
        try:
            if at not in allowed:
                _require_unread(connection, stored.name, found)
        except UserError as error:
            verdict.refused[at] = error
        else:
            verdict.notes.update({at: sentence(stored.name, found)} if found else {})
    return verdict


def check(
    connection: Connection, stored: StoredJob, layers: Layers, after: Mapping[str, Any], *, allowed: bool
) -> list[Repeat]:
    """What a write of this configuration may repeat. Raises Conflict when it would be refused now. Changes nothing."""
    found = _found(connection, stored, layers, after, _known(connection, [(stored, after)]))
    if not allowed:
        _require_unread(connection, stored.name, found)
    return found


def note(connection: Connection, changes: Iterable[Change], jobs: Mapping[str, StoredJob], layers: Layers) -> None:
    """Keeps where jobs leave rows by these changes. The rows of the jobs are locked."""
    left = [each for change in changes for each in _left(change, jobs.get(change.job), layers)]
    if left:
        rows = [{"place": each.place, "job": each.job, "reads": list(each.reads)} for each in left]
        connection.execute(_NOTE, {"left": as_json(rows)})


def _left(change: Change, stored: StoredJob | None, layers: Layers) -> list[Left]:
    if stored is None or stored.running is None:
        return []
    if change.action is Action.DELETE:
        before = _complete(stored, layers)
        return left_by(stored.name, [stored.running, *([] if before is None else [before])])
    return [] if change.merged is None else left_by(stored.name, [stored.running], kept=change.merged)


def _job_of(stored: StoredJob) -> Job:
    return Job(stored.name, stored.created_at, stored.running)


def _complete(stored: StoredJob, layers: Layers) -> Mapping[str, Any] | None:
    """What is expected of a job; None for a new one, and for what is no job by the rules of this release."""
    if not stored.layers:
        return None
    try:
        return read_merged(merged_of(stored, layers)).model_dump(mode="json")
    except InvalidConfig:
        return None


def _known(connection: Connection, asked: Iterable[tuple[StoredJob, Mapping[str, Any]]]) -> list[Left]:
    places = sorted({place for stored, after in asked for place in places_begun(_job_of(stored), after)})
    rows = connection.execute(_KNOWN, {"places": places}) if places else ()
    return [Left(row.place, row.job, tuple(row.reads), row.left_at) for row in rows]


def _found(
    connection: Connection, stored: StoredJob, layers: Layers, after: Mapping[str, Any], known: Collection[Left]
) -> list[Repeat]:
    """What may come again. A job that a restore is asked for goes on where its savepoint ends."""
    job = _job_of(stored)
    if not repeats(job, after, known) or connection.execute(_RESTORED, {"jobs": [job.name]}).first() is not None:
        return []
    return repeats(job._replace(before=_complete(stored, layers)), after, known)


def _require_unread(connection: Connection, job: str, found: Collection[Repeat]) -> None:
    if found:
        places = {each.place for each in found}
        readers = [flow.job for flow in flows.readers(connection, places, [job], _MOST_NAMED + 1)]
        require_no_reader(job, list(found), readers[:_MOST_NAMED], more=len(readers) > _MOST_NAMED)
