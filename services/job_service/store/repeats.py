"""Where jobs have left rows, and whether a write may bring such rows once more."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection, text

from penstock.control.errors import UserError
from penstock.model.jobs import Action, Change, StoredJob
from penstock.store.json import as_json
from services.job_service.flows import places_of_repeats
from services.job_service.repeat_texts import (
    Doubled,
    doubled_sentence,
    left_sentence,
    moved_sentence,
    require_no_reader,
    sentence,
)
from services.job_service.repeats import (
    Job,
    Left,
    Repeat,
    Why,
    left_by,
    may_begin,
    may_leave,
    may_repeat,
    sources_begun,
)
from services.job_service.store import doubled
from services.job_service.store.meeting import Asked, Meeting, complete
from services.job_service.store.readers import ReadersOf, newest_savepoints
from services.job_service.writes import Layers

Jobs = Mapping[str, StoredJob]
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
    """Of changes, given by position: why some must not be, and what to know. `doubled`: rows that others may bring
    again, of all that are not refused."""

    refused: dict[int, UserError]
    doubled: dict[int, list[Doubled]]
    notes: dict[int, list[str]]


NOTHING = Verdict({}, {}, {})


def judge(
    connection: Connection, changes: Mapping[int, Change], allowed: Collection[int], jobs: Jobs, layers: Layers
) -> Verdict:
    """None of those that are `allowed` to repeat rows is refused."""
    asked = _asked(changes, jobs, layers)
    left = {at: _left(change, jobs.get(change.job), layers) for at, change in changes.items()}
    gone = {change.job for change in changes.values() if change.action is Action.DELETE}
    meeting = Meeting(connection, asked, layers, [each for found in left.values() for each in found], gone)
    refused, accepted = _in_order(connection, meeting, allowed)
    verdict = Verdict(refused, {}, {})
    for at, repeated in accepted.items():
        verdict.notes[at] = [sentence(asked[at].stored.name, repeated)]
        verdict.doubled[at] = doubled_by(asked[at].stored.name, repeated)
    for at, places in left.items():
        heirs = meeting.heirs(places, jobs[changes[at].job].created_at) if places else []
        if heirs:
            verdict.notes.setdefault(at, []).append(left_sentence(changes[at].job, heirs))
            verdict.doubled.setdefault(at, []).extend(heirs)
    moved = {at: found for at, found in left.items() if found and changes[at].action is not Action.DELETE}
    for told in (_moved(connection, moved), _doubled(connection, asked)):
        for at, sentence_told in told.items():
            verdict.notes.setdefault(at, []).append(sentence_told)
    return verdict


def doubled_by(job: str, found: Iterable[Repeat]) -> list[Doubled]:
    """What a job that is accepted may write again. What another job makes of the same rows is not the same, as long as
    both are there."""
    return [Doubled(each.place, each.job, job) for each in found if each.why is not Why.OTHER]


def check(
    connection: Connection, stored: StoredJob, layers: Layers, after: Mapping[str, Any], *, allowed: bool
) -> list[str]:
    """What to know of a write of this configuration. Raises Conflict when it would be refused now. Changes nothing."""
    asked = {0: Asked(stored, after)}
    refused, accepted = _in_order(connection, Meeting(connection, asked, layers), [0] if allowed else [])
    if refused:
        raise refused[0]
    left = [] if stored.running is None else left_by(stored.name, _lives(stored, stored.running, layers), kept=after)
    notes = [sentence(stored.name, repeated) for repeated in accepted.values()]
    return [*notes, *_moved(connection, {0: left}).values(), *_doubled(connection, asked).values()]


def at_places(changes: Mapping[int, Change], jobs: Jobs, layers: Layers) -> set[int]:
    """The changes, given by position, by which a job begins or leaves a place, or begins to read: what they meet must
    stay as it is until they are committed (`flows.lock`)."""
    asked = _asked(changes, jobs, layers)
    begin = {at for at, each in asked.items() if places_of_repeats(each.after) or _sources_begun(each)}
    return begin | {at for at, change in changes.items() if _left(change, jobs.get(change.job), layers)}


def note(connection: Connection, changes: Mapping[int, Change], verdict: Verdict, jobs: Jobs, layers: Layers) -> None:
    """Keeps where jobs leave rows by these changes, and where they may write rows again. The jobs are locked."""
    left = [each for change in changes.values() for each in _left(change, jobs.get(change.job), layers)]
    if left:
        rows = [{"place": each.place, "job": each.job, "reads": list(each.reads)} for each in left]
        connection.execute(_NOTE, {"left": as_json(rows)})
    doubled.note(connection, [each for at in changes for each in verdict.doubled.get(at, ())])


def _asked(changes: Mapping[int, Change], jobs: Jobs, layers: Layers) -> dict[int, Asked]:
    """The changes, given by position, by which rows may come again."""
    possible = {at: _asked_by(change, jobs.get(change.job), layers) for at, change in changes.items()}
    return {at: each for at, each in possible.items() if each is not None}


def _asked_by(change: Change, stored: StoredJob | None, layers: Layers) -> Asked | None:
    if stored is None:
        return None
    if change.merged is not None:
        may_bring = may_repeat if stored.running is None else may_begin
        return Asked(stored, change.merged) if may_bring(change.old or {}, change.new or {}) else None
    if change.action is Action.CANCEL_RESTORE and stored.running is None:
        after = complete(stored, layers)
        return None if after is None else Asked(stored, after, goes_anew=True)
    return None


def _left(change: Change, stored: StoredJob | None, layers: Layers) -> list[Left]:
    if stored is None or stored.running is None:
        return []
    if change.action is Action.DELETE:
        return left_by(stored.name, _lives(stored, stored.running, layers))
    if change.merged is None or not may_leave(change.old or {}, change.new or {}):
        return []
    return left_by(stored.name, _lives(stored, stored.running, layers), kept=change.merged)


def _lives(stored: StoredJob, running: Mapping[str, Any], layers: Layers) -> list[Mapping[str, Any]]:
    """What a job runs, and what it was to run: it may have begun with that."""
    before = complete(stored, layers)
    return [running, *([] if before is None else [before])]


def _sources_begun(asked: Asked) -> frozenset[str]:
    stored = asked.stored
    return sources_begun(Job(stored.name, stored.created_at, stored.running), asked.after)


def _moved(connection: Connection, left: Mapping[int, Collection[Left]]) -> dict[int, str]:
    """What the readers of places find that jobs leave, which go on elsewhere."""
    readers = ReadersOf(connection, {each.place for found in left.values() for each in found})
    told = {}
    for at, found in left.items():
        by_place = {each.place: readers.of([each.place], each.job) for each in found}
        read = [place for place, names in by_place.items() if names.names]
        if read:
            job = next(iter(found)).job
            told[at] = moved_sentence(job, read, readers.of(read, job))
    return told


def _doubled(connection: Connection, asked: Mapping[int, Asked]) -> dict[int, str]:
    """What readers find that come after rows were written again."""
    found = doubled.read(connection, {at: _sources_begun(each) for at, each in asked.items()})
    return {at: doubled_sentence(asked[at].stored.name, rows) for at, rows in found.items()}


def _in_order(
    connection: Connection, meeting: Meeting, allowed: Collection[int]
) -> tuple[dict[int, UserError], dict[int, list[Repeat]]]:
    """Why some writes must not be, and which rows the others may bring again. A write meets those before it that are
    not refused."""
    found = meeting.found()
    asked = {at for at in found if at not in allowed}
    readers = ReadersOf(connection, {each.place for at in asked for each in found[at]})
    others = newest_savepoints(connection, {each.job for at in asked for each in found[at]})
    refused: dict[int, UserError] = {}
    accepted: dict[int, list[Repeat]] = {}
    for at in sorted(found):
        job, repeated = meeting.asked[at].stored.name, meeting.repeats(at, refused) if refused else found[at]
        try:
            if at in asked:
                require_no_reader(job, repeated, readers.of({each.place for each in repeated}, job), others)
        except UserError as error:
            refused[at] = error
        else:
            accepted |= {at: repeated} if repeated else {}
    return refused, accepted
