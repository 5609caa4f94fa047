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
    matching = [row for row in rows if wanted.has(row)]
    value = _VALUES[wanted.sort]
    known = [((value(row), row.job), row) for row in matching if value(row) is not None]
    unknown = [(("", row.job), row) for row in matching if value(row) is None]
    begin = _begin(wanted, after)
    if begin is not None and begin[0] is None:
        known, unknown = [], [each for each in unknown if each[0][1] > begin[1]]
    elif begin is not None:
        known = [each for each in known if (each[0] < begin if wanted.reverse else each[0] > begin)]
    pick = heapq.nlargest if wanted.reverse else heapq.nsmallest
    first = pick(limit + 1, known, key=_place)
    first += heapq.nsmallest(limit + 1 - len(first), unknown, key=_place)
    shown = [row for _, row in first[:limit]]
    return Found(len(matching), shown, wanted.place(shown[-1]) if len(first) > limit else None)


def in_order(jobs: Sequence[JobSummary], wanted: Wanted) -> Iterator[JobSummary]:
    """Those of these jobs that match, in the order."""
    by_name = {job.job: job for job in jobs}
    for row in page(map(Row.of, jobs), wanted, None, len(jobs)).rows:
        yield by_name[row.job]


def _place(each: tuple[tuple[Any, str], Row]) -> tuple[Any, str]:
    return each[0]


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
