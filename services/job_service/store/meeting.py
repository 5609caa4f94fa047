"""What the writes of one transaction meet at the places where they write: what was left there, who is there, and each
other."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, text

from penstock.config.validate import read_merged
from penstock.control.errors import InvalidConfig
from penstock.model.jobs import StoredJob
from services.job_service.flows import places_of_repeats
from services.job_service.repeat_texts import Doubled
from services.job_service.repeats import (
    Job,
    Known,
    Left,
    Repeat,
    by_place,
    is_heir,
    lives_of,
    may_read_again,
    new_of,
    possible,
    writes_nothing,
)
from services.job_service.store import flows
from services.job_service.writes import Layers
from services.job_service.writes import expected as merged_of

# What is committed of a job is older than what is expected: its tasks may be as before.
_LEFT = text(
    """
    SELECT place, left_outputs.job, reads, left_at,
        coalesce(deleting OR jobs.revision > running.revision, false) AS pending
    FROM left_outputs LEFT JOIN jobs ON jobs.name = left_outputs.job LEFT JOIN running ON running.job = jobs.name
    WHERE place = ANY(:places) AND reads <> '{}'
    """
)
_RESTORED = text("SELECT job FROM restores WHERE job = ANY(:jobs)")
# Of a batch of thousands that write to one topic only some are compared.
_MOST_COMPARED = 100


class Asked(NamedTuple):
    """A job as it is stored, and its complete configuration after a write. `goes_anew`: it was to go on from a
    savepoint, and does not."""

    stored: StoredJob
    after: Mapping[str, Any]
    goes_anew: bool = False


def complete(stored: StoredJob, layers: Layers) -> Mapping[str, Any] | None:
    """What is expected of a job; None for a new one, and for what is no job by the rules of this release."""
    if not stored.layers:
        return None
    try:
        return read_merged(merged_of(stored, layers)).model_dump(mode="json")
    except InvalidConfig:
        return None


class Meeting:
    """`asked`: the writes, by position. `left`: what jobs leave in the same transaction; `gone`: those of them that are
    deleted."""

    def __init__(
        self,
        connection: Connection,
        asked: Mapping[int, Asked],
        layers: Layers,
        left: Collection[Left] = (),
        gone: Collection[str] = (),
    ) -> None:
        self.asked = asked
        self._layers = layers
        self._places = {at: places_of_repeats(each.after) for at, each in asked.items()}
        begun = {place for places in self._places.values() for place in places}
        after = {
            each.stored.name: each.after
            for each in asked.values()
            if not writes_nothing(_job_of(each.stored), each.after)
        }
        waiting = [each.stored.name for each in asked.values() if each.stored.name not in after]
        places = begun | {each.place for each in left}
        self._writers = flows.writers_at(connection, places, known=after, without=[*gone, *waiting])
        self._living = self._living_at(after)
        self._known = self._known_at(connection, begun, left)
        self._beside = self._beside_at()
        self._restored = self._restored_of(connection)

    def found(self) -> dict[int, list[Repeat]]:
        """What may come again, by position, as if none were refused."""
        each = {at: self.repeats(at, ()) for at in self.asked}
        return {at: repeated for at, repeated in each.items() if repeated}

    def known(self, at: int) -> Known:
        """What others, and jobs of this name before, have left or still write at the places of one write; the job's own
        places, too."""
        return {place: self._known.get(place, ()) for place in self._places[at]}

    def repeats(self, at: int, refused: Collection[int]) -> list[Repeat]:
        """What may come again by one write, after those before it that are not `refused`."""
        asked, job, known = self.asked[at], self._job(at), self._known_to(at, refused)
        if may_read_again(job, asked.after):
            job = self._with_before(job, asked)
        found = possible(job, asked.after, known)
        if not found or asked.goes_anew:
            return sorted(found)
        return new_of(self._with_before(job, asked), found, known)

    def _with_before(self, job: Job, asked: Asked) -> Job:
        return job._replace(before=job.before or complete(asked.stored, self._layers))

    def heirs(self, left: Iterable[Left], since: datetime) -> list[Doubled]:
        """The jobs that write where one that was made at `since` leaves, and were made after it."""
        return [
            Doubled(each.place, each.job, living.job)
            for each in left
            for living in self._living.get(each.place, ())
            if is_heir(living, self._writers[living.job].created_at, each, since)
        ]

    def _living_at(self, after: Mapping[str, Mapping[str, Any]]) -> Known:
        living = {job: after.get(job) or writer.config or {} for job, writer in self._writers.items()}
        return by_place(left for job, config in living.items() for left in lives_of(job, config))

    def _known_at(self, connection: Connection, begun: Collection[str], left: Collection[Left]) -> Known:
        """Of a job that is there, and has left rows there before, only that it is there; not of one that may just come
        back by this transaction."""
        rows = connection.execute(_LEFT, {"places": sorted(begun)}) if begun else ()
        before = [Left(row.place, row.job, tuple(row.reads), row.left_at, may_write=row.pending) for row in rows]
        there = [each for place in begun for each in self._living.get(place, ())]
        written = {each.stored.name for each in self.asked.values()}
        leave = {(each.place, each.job) for each in left}
        newer = {(each.place, each.job) for each in there if each.job not in written} | leave
        known = [each for each in before if (each.place, each.job) not in newer]
        known += [each for each in left if each.place in begun]
        return by_place([*known, *(each for each in there if (each.place, each.job) not in leave)])

    def _beside_at(self) -> dict[str, list[tuple[int, Left]]]:
        """What writes of this transaction bring to places where several of them write, with their positions."""
        writers = Counter(place for places in self._places.values() for place in places)
        found: defaultdict[str, list[tuple[int, Left]]] = defaultdict(list)
        for at, each in sorted(self.asked.items()):
            is_alone = not any(writers[place] > 1 for place in self._places[at])
            if is_alone or each.stored.name in self._writers or writes_nothing(_job_of(each.stored), each.after):
                continue
            for left in lives_of(each.stored.name, each.after):
                compared = len(self._known.get(left.place, ())) + len(found[left.place])
                if writers[left.place] > 1 and compared < _MOST_COMPARED:
                    found[left.place].append((at, left))
        return found

    def _restored_of(self, connection: Connection) -> set[str]:
        """The jobs of these that never ran and are to go on from a savepoint."""
        met = self._known.keys() | self._beside.keys()
        jobs = [
            each.stored.name
            for at, each in self.asked.items()
            if each.stored.running is None and not each.goes_anew and not met.isdisjoint(self._places[at])
        ]
        return set(connection.execute(_RESTORED, {"jobs": jobs}).scalars()) if jobs else set()

    def _known_to(self, at: int, refused: Collection[int]) -> Known:
        known = {}
        for place in self._places[at]:
            beside = [left for before, left in self._beside.get(place, ()) if before < at and before not in refused]
            known[place] = [*self._known.get(place, ()), *beside]
        return known

    def _job(self, at: int) -> Job:
        job = _job_of(self.asked[at].stored)
        return job._replace(goes_on=job.name in self._restored)


def _job_of(stored: StoredJob) -> Job:
    return Job(stored.name, stored.created_at, stored.running)
