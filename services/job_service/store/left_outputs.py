"""Lets go what was noted of places where jobs have left rows, once nobody uses the place any more."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import Connection, text

from penstock.config.topic_patterns import covers
from services.job_service.flows import is_path
from services.job_service.store import flows

_OLD = text(
    """
    SELECT place, job FROM left_outputs WHERE left_at < now() - :age ORDER BY left_at, place, job
    OFFSET :after LIMIT :most
    """
)
# A job that still runs the generation that wrote there has not left it.
_USED = text(
    """
    SELECT place FROM unnest(CAST(:places AS text[])) AS place WHERE EXISTS (
        SELECT FROM flows WHERE reads && ARRAY[place] OR writes = place OR folder = place OR dead_letters = place
            OR side_topics && ARRAY[place] OR side_stores && ARRAY[place])
    UNION SELECT place FROM left_outputs JOIN running USING (job, generation) WHERE place = ANY(:places)
    """
)
_HAS_UNNOTED = text("SELECT EXISTS (SELECT FROM flows WHERE dead_letters IS NULL)")
# It waits for no row: a write may hold several of them, and wait for one of these.
_DELETE = text(
    """
    WITH gone AS (
        SELECT place, job FROM left_outputs
        WHERE (place, job) IN (SELECT * FROM unnest(CAST(:places AS text[]), CAST(:jobs AS text[])))
            AND left_at < now() - :age
        FOR UPDATE SKIP LOCKED)
    DELETE FROM left_outputs USING gone WHERE left_outputs.place = gone.place AND left_outputs.job = gone.job
    """
)


def purge_left(connection: Connection, age: timedelta, after: int, most: int) -> tuple[int, int]:
    """Deletes rows of that age at whose places no job writes or reads: of at most `most` of them, oldest first, without
    the first `after`. How many were read, and how many are gone. None is while the flow of some job is not known."""
    old = [(row.place, row.job) for row in connection.execute(_OLD, {"age": age, "after": after, "most": most})]
    if not old or connection.execute(_HAS_UNNOTED).scalar_one():
        return 0, 0
    used = _used(connection, [place for place, _ in old])
    gone = [(place, job) for place, job in old if place not in used]
    if not gone:
        return len(old), 0
    places, jobs = zip(*gone, strict=True)
    values = {"places": list(places), "jobs": list(jobs), "age": age}
    return len(old), connection.execute(_DELETE, values).rowcount


def _used(connection: Connection, places: Sequence[str]) -> set[str]:
    """Those of the places where a job writes or that one reads, by its newest write."""
    used = set(connection.execute(_USED, {"places": list(places)}).scalars())
    used |= flows.shared_places(connection)
    patterns = flows.patterns(connection)
    topics = [place for place in places if not is_path(place)]
    return used | {place for place in topics if any(covers(name, place) for name in patterns)}
