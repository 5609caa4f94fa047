"""All jobs at once: how many are well, what changed lately; and who calls."""

from __future__ import annotations

from penstock.store.engine import snapshot
from penstock.wire.fleet import CallerView, FleetView
from penstock.wire.jobs import HistoryPage
from services.job_service import requests, views
from services.job_service.requests import PageOf100, PartsOf, PrincipalOf
from services.job_service.store import history

router = requests.router_of("fleet")


@router.get("/v1/caller", response_model=CallerView)
def caller(principal: PrincipalOf) -> CallerView:
    """Who the token belongs to, and what it may do."""
    return CallerView.model_validate(principal)


@router.get("/v1/fleet", response_model=FleetView)
def fleet(parts: PartsOf) -> FleetView:
    """How many jobs have each health and each state, and the worst of them. A count of many jobs takes seconds: then
    the answer is the count before, or what has been counted so far."""
    return parts.census.count()


@router.get("/v1/changes", response_model=HistoryPage)
def changes(parts: PartsOf, page: PageOf100) -> HistoryPage:
    """Who wrote what to any job, when and why; newest first. Deleted jobs keep their history."""
    with snapshot(parts.engine) as connection:
        return views.history_page(history.page(connection, None, limit=page.limit, before_id=page.after_number()))
