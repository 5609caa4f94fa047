"""Who reads what jobs write, and from which savepoints one could go on instead of writing rows twice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from sqlalchemy import Connection, text

from penstock.config.topic_patterns import covers, is_pattern
from services.job_service.lineage import topics_filled
from services.job_service.repeat_texts import Readers
from services.job_service.store import expected, flows

_MOST_NAMED = 5
_MOST_OF_A_JOB = 100
_NEWEST_SAVEPOINTS = text(
    """
    SELECT DISTINCT ON (job) job, name FROM savepoints WHERE job = ANY(:jobs) AND state = 'ready'
    ORDER BY job, number DESC
    """
)


class ReadersOf:
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

    def of(self, places: Collection[str], job: str) -> Readers:
        """The first of them by name, without the job itself."""
        names = self._names(places, job)
        return Readers(names[:_MOST_NAMED], more=len(names) > _MOST_NAMED)

    def _names(self, places: Collection[str], job: str) -> list[str]:
        if not self._has_all:
            return [flow.job for flow in flows.readers(self._connection, places, [job], _MOST_NAMED + 1)]
        names = {*places, *(name for name in self._patterns if any(covers(name, place) for place in places))}
        return sorted({reader for name in names for reader in self._by_name.get(name, ())} - {job})


def read_readers(connection: Connection, job: str) -> list[str]:
    """At most a hundred jobs by name that read where a job writes, and are not being deleted. None where there is no
    such job."""
    found = flows.readers(connection, topics_filled([flows.read(connection, job)]), [job], _MOST_OF_A_JOB)
    stored = expected.read(connection, [flow.job for flow in found])
    return [name for name, reader in sorted(stored.items()) if not reader.deleting]


def newest_savepoints(connection: Connection, jobs: Collection[str]) -> dict[str, str]:
    """The newest savepoint of each job that has one to go on from."""
    rows = connection.execute(_NEWEST_SAVEPOINTS, {"jobs": sorted(jobs)}) if jobs else ()
    return {row.job: row.name for row in rows}
