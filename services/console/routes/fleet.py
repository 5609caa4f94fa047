"""The first page: all jobs, what changed lately, and what is wrong."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from penstock.control.errors import InvalidConfig
from penstock.model.health import Health
from penstock.model.jobs import JobState
from penstock.wire.job_client import JobClient
from penstock.wire.jobs import JobPage
from services.console.requests import ClientOf, asked_span, page, times_of
from services.console.views import fleet
from services.console.views.charts import SPANS
from services.console.views.fleet_charts import fleet_charts

router = APIRouter(include_in_schema=False)
_CHANGES = 8
_ALERTS = 6


@router.get("/")
def fleet_page(request: Request, client: ClientOf) -> Response:
    """How many jobs are well, open alerts, recent changes, and a table of jobs."""
    error, status = "", 200
    try:
        wanted = fleet.asked(request.query_params)
        table = _table(client, wanted)
    except InvalidConfig as refused:
        error, status, wanted = refused.detail, 422, fleet.Asked()
        table = fleet.Table((), None, None)
    counted, span = client.fleet(), asked_span(request)
    return page(
        request,
        "fleet.html",
        status=status,
        error=error,
        wanted=wanted,
        table=table,
        counted=counted,
        figures=fleet.figures(counted.health),
        segments=fleet.segments(counted),
        charts=list(fleet_charts(client.fleet_metrics(**times_of(request, span)))),
        span=span,
        spans=list(SPANS),
        alerts=client.alerts(limit=_ALERTS),
        changes=client.changes(limit=_CHANGES).entries,
        healths=list(Health),
        states=list(JobState),
    )


def _table(client: JobClient, wanted: fleet.Asked) -> fleet.Table:
    if wanted.sort == "job":
        found = _read(client, wanted, fleet.PAGE, wanted.after or None)
        return fleet.by_name(found.jobs, found.next, wanted)
    found = _read(client, wanted, fleet.MOST_SORTED, None)
    return fleet.in_order(found.jobs, found.next, wanted)


def _read(client: JobClient, wanted: fleet.Asked, limit: int, after: str | None) -> JobPage:
    return client.jobs_page(**wanted.filters, limit=limit, cursor=after)
