"""Answers of the Job Service about all jobs at once, and about the caller."""

from __future__ import annotations

from datetime import datetime

from penstock.model.health import Health
from penstock.model.jobs import JobState, Role
from penstock.wire.jobs import JobSummary, View


class CallerView(View):
    """Who calls: the name of the token, its role, and the layers that it may write (`*`: all)."""

    name: str
    role: Role
    layers: list[str]


class FleetView(View):
    """How many jobs have each health and each state. A value that no job has is left out.

    `at`: when the count began. `complete` false: it goes on, and `jobs` have been counted so far.
    `worst`: jobs that are neither healthy nor stopped, the gravest health first, at most 50.
    """

    at: datetime
    complete: bool
    jobs: int
    health: dict[Health, int]
    states: dict[JobState, int]
    worst: list[JobSummary]


class SortedJobs(View):
    """A page of all jobs in an order. The order is that of the count that began `at`; `complete` false: of those that
    were counted so far. The figures are of now, and a job that does not match any more is left out. `matching`: how
    many matched. `next`: the cursor of the next page, null at the end."""

    at: datetime
    complete: bool
    matching: int
    jobs: list[JobSummary]
    next: str | None = None
