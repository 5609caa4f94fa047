"""The pages of one job: how it runs, what is around it, its configuration, history, decisions, savepoints."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import APIRouter, Request, Response

from penstock.wire.job_client import JobClient
from penstock.wire.jobs import HistoryEntry, JobView
from penstock.wire.lineage import DEFAULT_DEPTH
from penstock.wire.overview import JobSeries
from penstock.wire.stages import layer_written, plan_steps, stages
from services.console.requests import ClientOf, Name, asked_span, page, parts_of, times_of
from services.console.views import decisions as decisions_view
from services.console.views.charts import METRICS, SPANS, charts
from services.console.views.diffs import differences
from services.console.views.forms import Filled
from services.console.views.layers import layers_table
from services.console.views.lineage import DEPTHS, depth_of, picture, rows
from services.console.views.rollouts import share
from services.console.views.runbooks import as_html

router = APIRouter(include_in_schema=False)
_ENTRIES = 50
_NEWEST_ENTRIES = 5


@router.get("/jobs/{job}")
def job_page(request: Request, job: Name, client: ClientOf) -> Response:
    """How it runs: health, stages of the revision, lag, charts, tasks."""
    view, sync, tasks = client.get_job(job), client.sync(job), client.tasks(job).tasks
    span, rollout = asked_span(request), client.rollout(job)
    max_lag = view.config["slo"]["max_lag_seconds"]
    return page(
        request,
        "job.html",
        tab="overview",
        job=view,
        state=sync.state,
        sync=sync,
        tasks=tasks,
        stages=stages(view, sync, tasks, entry=_entry(client, view)),
        steps=plan_steps(sync),
        rollout=rollout,
        upgraded=share(rollout),
        max_lag_seconds=max_lag,
        charts=list(charts(_series(request, client, job, span), max_lag)),
        span=span,
        spans=list(SPANS),
        alerts=client.alerts(subject=job).alerts,
        causes=[(cause, as_html(cause.advice)) for cause in client.causes(job).causes],
        runbooks=parts_of(request).runbooks,
    )


def _entry(client: JobClient, job: JobView) -> HistoryEntry | None:
    """The newest revision in the history, where it is a write to no layer: the job says nothing of its author."""
    if layer_written(job, job.revision) is not None:
        return None
    entries = client.history(job.job, limit=_NEWEST_ENTRIES).entries
    return next((entry for entry in entries if entry.revision == job.revision), None)


def _series(request: Request, client: JobClient, job: str, span: str) -> JobSeries:
    return client.metrics(job, metric=METRICS, **times_of(request, span))


@router.get("/jobs/{job}/lineage")
def lineage(request: Request, job: Name, client: ClientOf) -> Response:
    """The jobs and topics around it."""
    found = client.lineage(job, depth=depth_of(request.query_params.get("depth"), DEFAULT_DEPTH))
    return page(
        request,
        "lineage.html",
        tab="lineage",
        job=client.get_job(job),
        found=found,
        picture=picture(found),
        rows=rows(found),
        depths=DEPTHS,
    )


@router.get("/jobs/{job}/configuration")
def configuration(request: Request, job: Name, client: ClientOf) -> Response:
    """The layers side by side."""
    return show_configuration(request, client, job, {})


def show_configuration(
    request: Request, client: JobClient, job: str, filled: Mapping[str, Filled], status: int = 200
) -> Response:
    """The same with forms that were refused, by the layer that they drop."""
    view = client.get_job(job)
    order = [layer.name for layer in client.layers()]
    all_fields = request.query_params.get("all") == "1"
    table = layers_table(client.explain(job), order, view.layers, all_fields=all_fields)
    return page(
        request,
        "configuration.html",
        status=status,
        tab="configuration",
        job=view,
        table=table,
        all_fields=all_fields,
        filled=filled,
        empty=Filled(),
    )


@router.get("/jobs/{job}/history")
def history(request: Request, job: Name, client: ClientOf) -> Response:
    """Who changed what, when and why."""
    return show_history(request, client, job, request.query_params.get("after") or "", {})


def show_history(
    request: Request, client: JobClient, job: str, after: str, filled: Mapping[str, Filled], status: int = 200
) -> Response:
    """The same from behind `after` on, with forms that were refused, by the layer and version that they go back to."""
    found = client.history(job, limit=_ENTRIES, cursor=after or None)
    entries = [(entry, list(differences(entry.old, entry.new))) for entry in found.entries]
    view = client.get_job(job)
    versions = {layer.layer: layer.version for layer in view.layers}
    return page(
        request,
        "history.html",
        status=status,
        tab="history",
        job=view,
        entries=entries,
        following=found.next,
        versions=versions,
        after=after,
        filled=filled,
        empty=Filled(),
    )


@router.get("/jobs/{job}/decisions")
def decisions(request: Request, job: Name, client: ClientOf) -> Response:
    """What the Auto Scaler decided, with what it knew."""
    found = client.decisions(job, limit=_ENTRIES, cursor=request.query_params.get("after") or None)
    view, span = client.get_job(job), asked_span(request)
    measured = client.metrics(job, metric=decisions_view.METRICS, **times_of(request, span))
    return page(
        request,
        "decisions.html",
        tab="decisions",
        job=view,
        charts=list(decisions_view.decision_charts(measured, found.decisions, view.config["slo"]["max_lag_seconds"])),
        span=span,
        spans=list(SPANS),
        decisions=[(each, decisions_view.action(each), decisions_view.because(each)) for each in found.decisions],
        following=found.next,
    )
