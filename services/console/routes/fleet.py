"""The first page: all jobs, what changed lately, and what is wrong."""

from __future__ import annotations

from itertools import islice

from fastapi import APIRouter, Request, Response

from penstock.control.errors import InvalidConfig
from penstock.model.health import Health
from penstock.model.jobs import JobState
from penstock.tasks.dimensions import CPU
from penstock.wire.job_client import JobClient
from penstock.wire.service_client import Paging
from services.console.requests import ClientOf, asked_span, page, times_of
from services.console.views import containers, fleet
from services.console.views.charts import SPANS
from services.console.views.fleet_charts import fleet_charts

router = APIRouter(include_in_schema=False)
_CHANGES = 8
_ALERTS = 6
_CONTAINERS = 100
"""In the small heat map: one page of the Job Service."""


@router.get("/")
def fleet_page(request: Request, client: ClientOf) -> Response:
    """How many jobs are well, open alerts, recent changes, and a table of jobs."""
    error, status = "", 200
    try:
        wanted = fleet.asked(request.query_params)
        table = _table(client, wanted)
    except InvalidConfig as refused:
        error, status, wanted = refused.detail, 422, fleet.Asked()
        table = fleet.Table()
    shown = list(islice(client.all_containers(), _CONTAINERS))
    dimension = next(iter(containers.dimensions(shown)), CPU)
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
        regions=containers.regions(shown, dimension),
        dimension=dimension,
        most_containers=_CONTAINERS,
        shades=range(containers.SHADES + 1),
        healths=list(Health),
        states=list(JobState),
    )


def _table(client: JobClient, wanted: fleet.Asked) -> fleet.Table:
    page: Paging = {"limit": fleet.PAGE, "cursor": wanted.after or None}
    if not wanted.needs_count:
        return fleet.by_name(client.jobs_page(**page, **wanted.filters), wanted)
    found = client.sorted_jobs(
        wanted.sort, reverse=wanted.reverse, least_lag_seconds=wanted.least_lag_seconds, **page, **wanted.filters
    )
    return fleet.in_order(found, wanted)
