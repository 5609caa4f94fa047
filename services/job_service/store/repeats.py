"""Where jobs have left rows, and whether a write may bring such rows once more."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, text

from penstock.config.topic_patterns import covers, is_pattern
from penstock.config.validate import read_merged
from penstock.control.errors import InvalidConfig, UserError
from penstock.model.jobs import Action, Change, StoredJob
from penstock.store.json import as_json
from services.job_service.repeats import (
    Doubled,
    Job,
    Known,
    Left,
    Repeat,
    by_place,
    doubled_sentence,
    left_by,
    lives_of,
    may_make_the_same,
    may_matter,
    places_begun,
    repeats,
    require_no_reader,
    sentence,
    sources_begun,
)
from services.job_service.store import flows
from services.job_service.writes import Layers
from services.job_service.writes import expected as merged_of

_MOST_NAMED = 5
_KNOWN = text("SELECT place, job, reads, left_at FROM left_outputs WHERE place = ANY(:places)")
_DOUBLED = text(
    """
    SELECT place, job, repeated_by FROM left_outputs
    WHERE repeated_by IS NOT NULL AND (place = ANY(:places) OR :has_patterns)
    """
)
_REPEATED = text(
    """
    UPDATE left_outputs SET repeated_by = new.by
    FROM jsonb_to_recordset(CAST(:repeats AS jsonb)) AS new(place text, job text, by text)
    WHERE left_outputs.place = new.place AND left_outputs.job = new.job
    """
)
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


class Asked(NamedTuple):
    """A job as it is stored, and its complete configuration after a write. `among_living`: it may come to make what
    another job makes. `goes_anew`: it was to go on from a savepoint, and does not."""

    stored: StoredJob
    after: Mapping[str, Any]
    among_living: bool = True
    goes_anew: bool = False

    @property
    def places(self) -> frozenset[str]:
        """Where it begins to write."""
        return places_begun(_job_of(self.stored), self.after)


class Verdict(NamedTuple):
    """Of changes, given by position: why some must not be, which rows others may bring again, and what to know."""

    refused: dict[int, UserError]
    repeats: dict[int, list[Repeat]]
    notes: dict[int, list[str]]


def judge(
    connection: Connection,
    changes: Mapping[int, Change],
    allowed: Collection[int],
    jobs: Mapping[str, StoredJob],
    layers: Layers,
) -> Verdict:
    """None of those that are `allowed` to repeat rows is refused."""
    possible = {at: _asked_by(change, jobs.get(change.job), layers) for at, change in changes.items()}
    asked = {at: each for at, each in possible.items() if each is not None}
    left = [each for change in changes.values() for each in _left(change, jobs.get(change.job), layers)]
    found = _found(connection, asked, layers, left)
    refused = _refused(connection, {at: (asked[at].stored.name, found[at]) for at in found if at not in allowed})
    accepted = {at: repeated for at, repeated in found.items() if at not in refused}
    notes = {at: [sentence(asked[at].stored.name, repeated)] for at, repeated in accepted.items()}
    for at, told in _doubled(connection, asked).items():
        notes.setdefault(at, []).append(told)
    return Verdict(refused, accepted, notes)


def _asked_by(change: Change, stored: StoredJob | None, layers: Layers) -> Asked | None:
    if stored is None:
        return None
    if change.merged is not None:
        return Asked(stored, change.merged, may_make_the_same(change.old or {}, change.new or {}))
    if change.action is Action.CANCEL_RESTORE and stored.running is None:
        after = _complete(stored, layers)
        return None if after is None else Asked(stored, after, goes_anew=True)
    return None


def check(
    connection: Connection, stored: StoredJob, layers: Layers, after: Mapping[str, Any], *, allowed: bool
) -> list[str]:
    """What to know of a write of this configuration. Raises Conflict when it would be refused now. Changes nothing."""
    asked = {0: Asked(stored, after)}
    found = _found(connection, asked, layers, [])
    if found and not allowed and (refused := _refused(connection, {0: (stored.name, found[0])})):
        raise refused[0]
    return [*(sentence(stored.name, repeated) for repeated in found.values()), *_doubled(connection, asked).values()]


def at_places(changes: Mapping[int, Change], jobs: Mapping[str, StoredJob], layers: Layers) -> set[int]:
    """The changes, given by position, by which a job begins or leaves a place, or begins to read: what they meet must
    stay as it is until they are committed (`flows.lock`)."""
    return {at for at, change in changes.items() if _is_at_places(change, jobs.get(change.job), layers)}


def _is_at_places(change: Change, stored: StoredJob | None, layers: Layers) -> bool:
    if change.merged is not None and not may_matter(change.old or {}, change.new or {}):
        return False
    asked = _asked_by(change, stored, layers)
    begins = asked is not None and (asked.places or sources_begun(_job_of(asked.stored), asked.after))
    return bool(begins or _left(change, stored, layers))


def note(
    connection: Connection,
    changes: Mapping[int, Change],
    verdict: Verdict,
    jobs: Mapping[str, StoredJob],
    layers: Layers,
) -> None:
    """Keeps where jobs leave rows by these changes, and where they may write rows again. The jobs are locked."""
    left = [each for change in changes.values() for each in _left(change, jobs.get(change.job), layers)]
    if left:
        rows = [{"place": each.place, "job": each.job, "reads": list(each.reads)} for each in left]
        connection.execute(_NOTE, {"left": as_json(rows)})
    again = [
        {"place": each.place, "job": each.job, "by": change.job}
        for at, change in changes.items()
        for each in verdict.repeats.get(at, ())
    ]
    if again:
        connection.execute(_REPEATED, {"repeats": as_json(again)})


def _left(change: Change, stored: StoredJob | None, layers: Layers) -> list[Left]:
    if stored is None or stored.running is None:
        return []
    if change.action is Action.DELETE:
        return left_by(stored.name, _lives(stored, stored.running, layers))
    if change.merged is None or not may_matter(change.old or {}, change.new or {}):
        return []
    return left_by(stored.name, _lives(stored, stored.running, layers), kept=change.merged)


def _lives(stored: StoredJob, running: Mapping[str, Any], layers: Layers) -> list[Mapping[str, Any]]:
    """What a job runs, and what it was to run: it may have begun with that."""
    before = _complete(stored, layers)
    return [running, *([] if before is None else [before])]


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


def _found(
    connection: Connection, asked: Mapping[int, Asked], layers: Layers, left: Iterable[Left]
) -> dict[int, list[Repeat]]:
    """What may come again by those writes, given by position, by which anything may. A job that a restore is asked for
    goes on where its savepoint ends. `left`: what is left by the same transaction."""
    known = _known(connection, asked.values(), left)
    may = {at: each for at, each in asked.items() if known and repeats(_job_of(each.stored), each.after, known)}
    restored = _restored(connection, [each.stored.name for each in may.values()])
    found = {}
    for at, each in may.items():
        if each.stored.name not in restored:
            before = None if each.goes_anew else _complete(each.stored, layers)
            found[at] = repeats(_job_of(each.stored)._replace(before=before), each.after, known)
    return {at: repeated for at, repeated in found.items() if repeated}


def _known(connection: Connection, asked: Collection[Asked], left: Iterable[Left]) -> Known:
    begun = {place for each in asked for place in each.places}
    if not begun:
        return {}
    rows = connection.execute(_KNOWN, {"places": sorted(begun)})
    before = [Left(row.place, row.job, tuple(row.reads), row.left_at) for row in rows]
    gone = {(each.place, each.job): each for each in (*(each for each in left if each.place in begun), *before)}
    compared = {place for each in asked if each.among_living for place in each.places}
    after = {each.stored.name: each.after for each in asked}
    writers = flows.writers_at(connection, compared)
    living = [each for job, config in writers.items() for each in lives_of(job, after.get(job, config))]
    return by_place([*gone.values(), *(each for each in living if (each.place, each.job) not in gone)])


def _restored(connection: Connection, jobs: Sequence[str]) -> set[str]:
    return set(connection.execute(_RESTORED, {"jobs": jobs}).scalars()) if jobs else set()


def _doubled(connection: Connection, asked: Mapping[int, Asked]) -> dict[int, str]:
    """What readers find that come after rows were written again."""
    begun = {at: sources_begun(_job_of(each.stored), each.after) for at, each in asked.items()}
    names = {name for sources in begun.values() for name in sources}
    if not names:
        return {}
    values = {"places": sorted(names), "has_patterns": any(map(is_pattern, names))}
    rows = [Doubled(*row) for row in connection.execute(_DOUBLED, values)]
    met = {
        at: [each for each in rows if any(covers(name, each.place) for name in sources)]
        for at, sources in begun.items()
    }
    return {at: doubled_sentence(asked[at].stored.name, found) for at, found in met.items() if found}


def _refused(connection: Connection, found: Mapping[int, tuple[str, Sequence[Repeat]]]) -> dict[int, UserError]:
    """Why those of the jobs, given by position with what they repeat, must not that others read."""
    refused: dict[int, UserError] = {}
    readers = _Readers(connection, {each.place for _, repeated in found.values() for each in repeated})
    for at, (job, repeated) in found.items():
        names = readers.of({each.place for each in repeated}, job)
        try:
            require_no_reader(job, repeated, names[:_MOST_NAMED], more=len(names) > _MOST_NAMED)
        except UserError as error:
            refused[at] = error
    return refused


class _Readers:
    """The readers of places, asked for at once where they are not too many."""

    def __init__(self, connection: Connection, places: Collection[str]) -> None:
        self._connection = connection
        found = flows.readers(connection, places, [], flows.MOST_READ) if places else []
        self._has_all = len(found) < flows.MOST_READ
        self._by_name: defaultdict[str, set[str]] = defaultdict(set)
        for flow in found:
            for name in flow.reads:
                self._by_name[name].add(flow.job)
        self._patterns = list(filter(is_pattern, self._by_name))

    def of(self, places: Collection[str], job: str) -> list[str]:
        """The first of them by name, one more than are named, without the job itself."""
        if not self._has_all:
            return [flow.job for flow in flows.readers(self._connection, places, [job], _MOST_NAMED + 1)]
        names = {*places, *(name for name in self._patterns if any(covers(name, place) for place in places))}
        found = {reader for name in names for reader in self._by_name.get(name, ())} - {job}
        return sorted(found)[: _MOST_NAMED + 1]
