"""The jobs of the newest count in an order that somebody asks for, a page at a time. Pure.

Health and lag are decided in Python, job by job, so all jobs are counted first (`census.py`) and then put in order.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from penstock.control.errors import InvalidConfig
from penstock.model.health import GRAVEST, Health
from penstock.model.states import JobSort, JobState
from penstock.wire.jobs import JobSummary

_GRAVITY = {health: number for number, health in enumerate(GRAVEST)}


class Row(NamedTuple):
    """What is kept of each job from one count to the next; fields as in `JobSummary`."""

    job: str
    owner: str
    state: JobState
    health: Health
    revision: int
    lag_seconds: float | None
    backlog_records: int | None
    rows_per_second: float | None

    @classmethod
    def of(cls, job: JobSummary) -> Self:
        """The row of a job."""
        return cls(*(getattr(job, name) for name in cls._fields))


_VALUES: Mapping[JobSort, Callable[[Row], Any]] = {
    JobSort.JOB: lambda row: row.job,
    JobSort.OWNER: lambda row: row.owner,
    JobSort.STATE: lambda row: row.state.value,
    JobSort.HEALTH: lambda row: _GRAVITY[row.health],
    JobSort.REVISION: lambda row: -row.revision,
    JobSort.LAG: lambda row: _greatest_first(row.lag_seconds),
    JobSort.BACKLOG: lambda row: _greatest_first(row.backlog_records),
    JobSort.RATE: lambda row: _greatest_first(row.rows_per_second),
}
assert _VALUES.keys() == set(JobSort)
_Placed = tuple[Any, str, Row]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which jobs, and in which order. `least_lag_seconds`: a job of which the lag is unknown has not so much. `names`:
    only these; None: any."""

    sort: JobSort = JobSort.JOB
    reverse: bool = False
    prefix: str = ""
    owner: str | None = None
    state: JobState | None = None
    health: Health | None = None
    least_lag_seconds: float | None = None
    names: Set[str] | None = None

    def has(self, row: Row) -> bool:
        """Whether a job matches all the filters."""
        return (
            row.job.startswith(self.prefix)
            and self.owner in (None, row.owner)
            and self.state in (None, row.state)
            and self.health in (None, row.health)
            and (self.names is None or row.job in self.names)
            and (
                self.least_lag_seconds is None
                or (row.lag_seconds is not None and row.lag_seconds >= self.least_lag_seconds)
            )
        )

    def place(self, row: Row) -> list[Any]:
        """Where a job is in the order, as a cursor says it."""
        return [self.sort.value, self.reverse, _VALUES[self.sort](row), row.job]


class Found(NamedTuple):
    """A page of the jobs that match. `last`: the place of its last one; None when nothing follows."""

    matching: int
    rows: Sequence[Row]
    last: list[Any] | None


def page(rows: Iterable[Row], wanted: Wanted, after: Sequence[Any] | None, limit: int) -> Found:
    """At most `limit` jobs that match, from after a place on. Unknown figures come last, also in reverse.

    Raises InvalidConfig for a place of another order.
    """
    begin = _begin(wanted, after)
    matching = list(rows) if wanted == Wanted(wanted.sort, wanted.reverse) else [row for row in rows if wanted.has(row)]
    known, unknown = _parted(matching, _VALUES[wanted.sort])
    if begin is not None and begin[0] is None:
        known, unknown = [], [each for each in unknown if each[1] > begin[1]]
    elif begin is not None:
        known = [each for each in known if (each[:2] < begin if wanted.reverse else each[:2] > begin)]
    pick = heapq.nlargest if wanted.reverse else heapq.nsmallest
    first = pick(limit + 1, known)
    first += heapq.nsmallest(limit + 1 - len(first), unknown)
    shown = [row for *_, row in first[:limit]]
    return Found(len(matching), shown, wanted.place(shown[-1]) if len(first) > limit else None)


def _parted(matching: Iterable[Row], value: Callable[[Row], Any]) -> tuple[list[_Placed], list[_Placed]]:
    """Those whose value is known, and the others, each with its place: a name is there once, so rows are not compared.
    There may be 100,000, so each is looked at once."""
    known, unknown = [], []
    for row in matching:
        found = value(row)
        if found is None:
            unknown.append(("", row.job, row))
        else:
            known.append((found, row.job, row))
    return known, unknown


def in_order(jobs: Sequence[JobSummary], wanted: Wanted) -> Iterator[JobSummary]:
    """Those of these jobs that match, in the order."""
    by_name = {job.job: job for job in jobs}
    for row in page(map(Row.of, jobs), wanted, None, len(jobs)).rows:
        yield by_name[row.job]


def _begin(wanted: Wanted, after: Sequence[Any] | None) -> tuple[Any, str] | None:
    if after is None:
        return None
    kind = str if wanted.sort in (JobSort.JOB, JobSort.OWNER, JobSort.STATE) else (int, float, type(None))
    match after:
        case [wanted.sort.value, wanted.reverse, value, str(job)] if isinstance(value, kind):
            return value, job
    raise InvalidConfig("this is no cursor of this list", field="cursor", rule="cursor")


def _greatest_first(value: float | None) -> float | None:
    return None if value is None else -value
