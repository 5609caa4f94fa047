"""Places whose rows may be there twice, for the jobs that begin to read there.

They are rows of `left_outputs` with `repeated_by`. One with no `reads` is of a job that has left nothing: it only says
that its rows there may have been written again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from sqlalchemy import Connection, text

from penstock.config.topic_patterns import covers, is_pattern
from penstock.store.json import as_json
from services.job_service.repeat_texts import Doubled

_READ = text(
    """
    SELECT place, job, repeated_by FROM left_outputs
    WHERE repeated_by IS NOT NULL AND (place = ANY(:places) OR :has_patterns)
    """
)
_NOTE = text(
    """
    INSERT INTO left_outputs (place, job, reads, generation, repeated_by)
    SELECT place, job, '{}', 0, repeated_by
    FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS new(place text, job text, repeated_by text)
    ON CONFLICT (place, job) DO UPDATE SET repeated_by = excluded.repeated_by
    """
)
# Of a life that ended before, as it were: `repeats` takes no such place for one where the job goes on.
_FORGET_OWN = text(
    """
    UPDATE left_outputs SET left_at = jobs.created_at FROM jobs
    WHERE jobs.name = left_outputs.job AND left_outputs.job = :job
        AND left_at >= :since AND left_at > jobs.created_at AND reads <> '{}'
    """
)


def note(connection: Connection, found: Iterable[Doubled]) -> None:
    """Keeps which job may have written the rows of another one again; of several the last."""
    rows = {(each.place, each.job): each._asdict() for each in found}
    if rows:
        connection.execute(_NOTE, {"rows": as_json(list(rows.values()))})


def forget_own(connection: Connection, job: str, since: datetime) -> None:
    """A job goes back to `since`: at the places that it has left from then on it would write rows again."""
    connection.execute(_FORGET_OWN, {"job": job, "since": since})


def read(connection: Connection, names: Mapping[int, Collection[str]]) -> dict[int, list[Doubled]]:
    """What is there twice of what is read under these names, which are given by position; none where nothing is."""
    asked = {name for each in names.values() for name in each}
    if not asked:
        return {}
    values = {"places": sorted(asked), "has_patterns": any(map(is_pattern, asked))}
    rows = [Doubled(*row) for row in connection.execute(_READ, values)]
    met = {at: [each for each in rows if any(covers(name, each.place) for name in names[at])] for at in names}
    return {at: found for at, found in met.items() if found}
