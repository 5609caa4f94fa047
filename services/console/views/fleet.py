"""The first page: how many jobs are well, and a table of jobs. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.control.errors import InvalidConfig
from penstock.model.health import GRAVEST, Health
from penstock.model.jobs import JobState
from penstock.wire.fleet import FleetView
from penstock.wire.jobs import JobSummary

PAGE = 50
MOST_SORTED = 1000
NOT_RUNNING = (Health.CRASHING, Health.HELD, Health.STARTING)
_GRAVITY = {health: number for number, health in enumerate(GRAVEST)}
_SORT_KEYS: Mapping[str, Callable[[JobSummary], Any]] = {
    "health": lambda job: _GRAVITY[job.health],
    "owner": lambda job: job.owner,
    "state": lambda job: job.state,
    "lag": lambda job: None if job.lag_seconds is None else -job.lag_seconds,
    "backlog": lambda job: None if job.backlog_records is None else -job.backlog_records,
    "rate": lambda job: None if job.rows_per_second is None else -job.rows_per_second,
    "revision": lambda job: -job.revision,
}
SORTS = ("job", *_SORT_KEYS)


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of the bar of all jobs: `x` and `width` of 1000."""

    health: Health
    jobs: int
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class Figure:
    """A share of the jobs that should run; None when there is none."""

    title: str
    share: float | None
    jobs: float
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
    return [Figure(title, count / should_run if should_run else None, count, why) for title, count, why in counts]


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
    """Which jobs are asked for. `page` counts from 1 and is for sorted tables; `after` is a cursor of others."""

    prefix: str = ""
    owner: str = ""
    state: JobState | None = None
    health: Health | None = None
    package: str = ""
    topic: str = ""
    sort: str = "job"
    after: str = ""
    page: int = 1

    @property
    def filters(self) -> dict[str, Any]:
        """The filters as the Job Service takes them."""
        texts = {"prefix": self.prefix, "owner": self.owner, "package": self.package, "topic": self.topic}
        return {**{name: text or None for name, text in texts.items()}, "state": self.state, "health": self.health}

    def query(self, **changes: Any) -> dict[str, str]:
        """The query of a link to this table with changes; at its first page unless a change says otherwise."""
        present = {**self.filters, "sort": None if self.sort == "job" else self.sort}
        return {name: str(value) for name, value in {**present, **changes}.items() if value not in (None, "")}


def asked(query: Mapping[str, str]) -> Asked:
    """What the query of the page asks for. Raises InvalidConfig."""
    texts = {name: query.get(name, "").strip() for name in ("prefix", "owner", "package", "topic", "after")}
    sort = query.get("sort", "") or "job"
    number = query.get("page", "1")
    if re.fullmatch(r"[1-9][0-9]{0,3}", number) is None:
        raise InvalidConfig(f"page: {number[:20]} is no page", field="page", rule="page")
    return Asked(
        **texts,
        state=_one_of(JobState, "state", query.get("state", "")),
        health=_one_of(Health, "health", query.get("health", "")),
        sort=_chosen(sort),
        page=int(number),
    )


def _chosen(sort: str) -> str:
    if sort not in SORTS:
        raise InvalidConfig(f"sort: choose one of {', '.join(SORTS)}", field="sort", rule="one_of")
    return sort


def _one_of(kind: Any, field: str, text: str) -> Any:
    if text and text not in set(kind):
        raise InvalidConfig(f"{field}: choose one of {', '.join(kind)}", field=field, rule="one_of")
    return kind(text) if text else None


@dataclass(frozen=True, slots=True)
class Table:
    """A page of jobs. `newer`, `older`: queries of the pages beside it; None where there is none.

    `note`: what the table leaves out.
    """

    jobs: Sequence[JobSummary]
    newer: Mapping[str, str] | None
    older: Mapping[str, str] | None
    note: str = ""


def by_name(jobs: Sequence[JobSummary], following: str | None, wanted: Asked) -> Table:
    """A page in the order of the Job Service."""
    note = ""
    if following is not None and len(jobs) < PAGE:
        note = "more jobs may match: not all have been looked at yet"
    older = None if following is None else wanted.query(after=following)
    return Table(jobs, wanted.query() if wanted.after else None, older, note)


def in_order(jobs: Sequence[JobSummary], following: str | None, wanted: Asked) -> Table:
    """A page of the jobs that were read, sorted; unknown figures come last."""
    key = _SORT_KEYS[wanted.sort]
    ordered = sorted(jobs, key=lambda job: (key(job) is None, key(job) if key(job) is not None else 0, job.job))
    first = (wanted.page - 1) * PAGE
    note = "" if following is None else f"sorted among the first {len(jobs):,} by name: filter to sort the others"
    newer = wanted.query(page=wanted.page - 1) if wanted.page > 1 else None
    older = wanted.query(page=wanted.page + 1) if len(ordered) > first + PAGE else None
    return Table(ordered[first : first + PAGE], newer, older, note)
