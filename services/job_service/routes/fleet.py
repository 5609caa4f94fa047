"""All jobs at once: how many are well, what changed lately; and who calls."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from penstock.model.health import Health
from penstock.model.states import JobSort, JobState
from penstock.store.engine import snapshot
from penstock.wire.fleet import CallerView, FleetView, SortedJobs
from penstock.wire.jobs import HistoryPage
from services.job_service import order, requests, views
from services.job_service.cursors import encode
from services.job_service.order import Wanted
from services.job_service.requests import PageOf100, PartsOf, PrincipalOf
from services.job_service.store import history, jobs, lags

router = requests.router_of("fleet")
LeastLag = Annotated[float | None, Query(ge=0, le=1e9, description="s; only jobs that lag by so much at least")]


@router.get("/v1/caller", response_model=CallerView)
def caller(principal: PrincipalOf) -> CallerView:
    """Who the token belongs to, and what it may do."""
    return CallerView.model_validate(principal)


@router.get("/v1/fleet", response_model=FleetView)
def fleet(parts: PartsOf) -> FleetView:
    """How many jobs have each health and each state, and the worst of them. A count of many jobs takes seconds: then
    the answer is the count before, or what has been counted so far."""
    return parts.census.count()


@router.get("/v1/fleet/jobs", response_model=SortedJobs)
def sorted_jobs(
    parts: PartsOf,
    page: PageOf100,
    sort: JobSort = JobSort.JOB,
    reverse: bool = False,
    prefix: requests.Text = "",
    owner: requests.OptionalText = None,
    state: JobState | None = None,
    package: requests.OptionalText = None,
    topic: requests.OptionalText = None,
    health: Health | None = None,
    least_lag_seconds: LeastLag = None,
) -> SortedJobs:
    """All jobs in an order; filters as in the list of jobs. The order is that of the newest count of all jobs, which
    may be some seconds old; the figures are new. Unknown figures come last."""
    counted = parts.census.listed()
    with snapshot(parts.engine) as connection:
        names = jobs.users_of(connection, package, topic)
        wanted = Wanted(sort, reverse, prefix, owner, state, health, least_lag_seconds, names)
        found = order.page(counted.rows, wanted, page.after_place(), page.limit)
        present = jobs.named(connection, [row.job for row in found.rows])
        shown = list(order.in_order(lags.with_lags(connection, present), wanted))
    following = None if found.last is None else encode(found.last)
    return SortedJobs(at=counted.at, complete=counted.complete, matching=found.matching, jobs=shown, next=following)


@router.get("/v1/changes", response_model=HistoryPage)
def changes(parts: PartsOf, page: PageOf100) -> HistoryPage:
    """Who wrote what to any job, when and why; newest first. Deleted jobs keep their history."""
    with snapshot(parts.engine) as connection:
        return views.history_page(history.page(connection, None, limit=page.limit, before_id=page.after_number()))
