"""The first page: how many jobs are well, and a table of jobs. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from penstock.control.errors import InvalidConfig
from penstock.model.health import GRAVEST, Health
from penstock.model.jobs import JobState
from penstock.model.states import JobSort
from penstock.wire.fleet import FleetView, SortedJobs
from penstock.wire.job_views import JobFilters
from penstock.wire.jobs import JobPage, JobSummary
from services.console.views import forms

PAGE = 50
NOT_RUNNING = (Health.CRASHING, Health.HELD, Health.STARTING)
SORTS = tuple(JobSort)
BY_NAME = (JobSort.JOB, JobSort.OWNER, JobSort.STATE)
"""What is sorted by the alphabet; the others have the gravest or the greatest first."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of the bar of all jobs: `x` and `width` of 1000."""

    health: Health
    jobs: int
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class Figure:
    """A share of the jobs that should run; None when there is none. `of`: how many should."""

    title: str
    share: float | None
    jobs: float
    of: float
    meaning: str


def figures(health: Mapping[Health, float]) -> list[Figure]:
    """The shares of jobs that do not run, lag, or are not healthy for any reason, from the number of jobs by health.
    Stopped jobs do not count."""
    should_run = sum(health.values()) - health.get(Health.STOPPED, 0)
    unhealthy = should_run - health.get(Health.HEALTHY, 0)
    counts = (
        ("not running", sum(health.get(each, 0) for each in NOT_RUNNING), "crashing, held or starting"),
        ("lagging", health.get(Health.LAGGING, 0), "behind by more than their SLO"),
        ("unhealthy", unhealthy, "anything but healthy"),
    )
    return [
        Figure(title, count / should_run if should_run else None, count, should_run, why)
        for title, count, why in counts
    ]


def segments(fleet: FleetView) -> list[Segment]:
    """The bar of all jobs by health, the gravest first."""
    found, x = [], 0.0
    for health in GRAVEST:
        count = fleet.health.get(health, 0)
        if count:
            width = 1000 * count / fleet.jobs
            found.append(Segment(health, count, x, width))
            x += width
    return found


@dataclass(frozen=True, slots=True)
class Asked:
    """Which jobs are asked for. `lag`: the least, as it was typed. `after`: the cursor of a page."""

    prefix: str = ""
    owner: str = ""
    state: JobState | None = None
    health: Health | None = None
    package: str = ""
    topic: str = ""
    lag: str = ""
    least_lag_seconds: float | None = None
    sort: JobSort = JobSort.JOB
    reverse: bool = False
    after: str = ""

    @property
    def filters(self) -> JobFilters:
        """The filters as the Job Service takes them."""
        return {
            "prefix": self.prefix or None,
            "owner": self.owner or None,
            "package": self.package or None,
            "topic": self.topic or None,
            "state": self.state,
            "health": self.health,
        }

    @property
    def needs_count(self) -> bool:
        """Whether all jobs must have been counted to answer: health and lag are decided job by job."""
        is_sorted = self.sort is not JobSort.JOB or self.reverse
        return is_sorted or self.health is not None or self.least_lag_seconds is not None

    def query(self, **changes: Any) -> dict[str, str]:
        """The query of a link to this table with changes; at its first page unless a change says otherwise."""
        present = {**self.filters, "lag": self.lag, "sort": self.sort, "reverse": "1" if self.reverse else None}
        wanted = {name: str(value) for name, value in {**present, **changes}.items() if value not in (None, "")}
        return {name: value for name, value in wanted.items() if (name, value) != ("sort", JobSort.JOB)}

    def sorted_by(self, sort: str) -> dict[str, str]:
        """The query of a link that sorts by a column, or by the present one the other way round."""
        return self.query(sort=sort, reverse="1" if sort == self.sort and not self.reverse else None)

    def direction(self, sort: str) -> str | None:
        """How a column is sorted, as `aria-sort` says it; None: it is not."""
        if sort != self.sort:
            return None
        return "descending" if (sort in BY_NAME) == self.reverse else "ascending"


def asked(query: Mapping[str, str]) -> Asked:
    """What the query of the page asks for. Raises InvalidConfig."""
    texts = {name: query.get(name, "").strip() for name in ("prefix", "owner", "package", "topic", "lag", "after")}
    return Asked(
        **texts,
        state=_one_of(JobState, "state", query.get("state", "")),
        health=_one_of(Health, "health", query.get("health", "")),
        least_lag_seconds=_seconds(texts["lag"]),
        sort=_one_of(JobSort, "sort", query.get("sort", "")) or JobSort.JOB,
        reverse=query.get("reverse") == "1",
    )


def _one_of(kind: Any, field: str, text: str) -> Any:
    if text and text not in set(kind):
        raise InvalidConfig(f"{field}: choose one of {', '.join(kind)}", field=field, rule="one_of")
    return kind(text) if text else None


def _seconds(text: str) -> float | None:
    errors: forms.Errors = {}
    found = forms.needed_seconds(text, errors) if text else None
    if errors:
        raise InvalidConfig(f"lag: {errors['ends']}", field="lag", rule="duration")
    return found


@dataclass(frozen=True, slots=True)
class Table:
    """A page of jobs. `first`, `older`: queries of the first and of the next page; None where there is none.

    `matching`: how many jobs match, and `at` when the count of them began; None where that was not counted.
    """

    jobs: Sequence[JobSummary] = ()
    first: Mapping[str, str] | None = None
    older: Mapping[str, str] | None = None
    matching: int | None = None
    at: datetime | None = None
    complete: bool = True


def by_name(found: JobPage, wanted: Asked) -> Table:
    """A page in the order of the names."""
    return Table(found.jobs, _first(wanted), _older(found.next, wanted))


def in_order(found: SortedJobs, wanted: Asked) -> Table:
    """A page in the order of a count."""
    return Table(found.jobs, _first(wanted), _older(found.next, wanted), found.matching, found.at, found.complete)


def _first(wanted: Asked) -> Mapping[str, str] | None:
    return wanted.query() if wanted.after else None


def _older(following: str | None, wanted: Asked) -> Mapping[str, str] | None:
    return None if following is None else wanted.query(after=following)
