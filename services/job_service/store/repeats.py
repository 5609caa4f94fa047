"""Where jobs have left rows, and whether a write may bring such rows once more."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
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
    Left,
    Repeat,
    doubled_sentence,
    left_by,
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
    asked = {at: (jobs[change.job], change.merged) for at, change in changes.items() if change.merged is not None}
    known = _known(connection, asked.values())
    verdict = Verdict({}, {}, {})
    for at, (stored, after) in asked.items() if known else ():
        found = _found(connection, stored, layers, after, known)
        try:
            if at not in allowed:
                _require_unread(connection, stored.name, found)
        except UserError as error:
            verdict.refused[at] = error
        else:
            verdict.repeats[at] = found
            verdict.notes.update({at: [sentence(stored.name, found)]} if found else {})
    for at, told in _doubled(connection, asked).items():
        verdict.notes.setdefault(at, []).append(told)
    return verdict


def check(
    connection: Connection, stored: StoredJob, layers: Layers, after: Mapping[str, Any], *, allowed: bool
) -> list[str]:
    """What to know of a write of this configuration. Raises Conflict when it would be refused now. Changes nothing."""
    found = _found(connection, stored, layers, after, _known(connection, [(stored, after)]))
    if not allowed:
        _require_unread(connection, stored.name, found)
    doubled = _doubled(connection, {0: (stored, after)}).values()
    return [*([sentence(stored.name, found)] if found else []), *doubled]


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


def _doubled(connection: Connection, asked: Mapping[int, tuple[StoredJob, Mapping[str, Any]]]) -> dict[int, str]:
    """What readers find that come after rows were written again."""
    begun = {at: sources_begun(_job_of(stored), after) for at, (stored, after) in asked.items()}
    names = {name for sources in begun.values() for name in sources}
    if not names:
        return {}
    values = {"places": sorted(names), "has_patterns": any(map(is_pattern, names))}
    rows = [Doubled(*row) for row in connection.execute(_DOUBLED, values)]
    met = {
        at: [each for each in rows if any(covers(name, each.place) for name in sources)]
        for at, sources in begun.items()
    }
    return {at: doubled_sentence(asked[at][0].name, found) for at, found in met.items() if found}


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
