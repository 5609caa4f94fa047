"""The application: routers, the OpenAPI document, and what the routes work with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI
from sqlalchemy import Engine, text

from penstock.control.clock import Clock
from penstock.identity.vouching import Call
from penstock.store.engine import transaction
from penstock.wire.analyses import AnalysisClient
from penstock.wire.app import add_routes, at_end, create_app
from penstock.wire.http import Identity
from penstock.wire.problems import PROBLEM
from penstock.wire.replays import ReplayClient
from penstock.wire.task_logs import TaskLogClient
from services.job_service.analyses import Analyses
from services.job_service.authentication import Authenticator
from services.job_service.census import Census
from services.job_service.events.reader import EventReader
from services.job_service.events.slots import Slots
from services.job_service.probes import Probes
from services.job_service.rates import Rates, Sizes
from services.job_service.requests import Parts
from services.job_service.routes import (
    alerts,
    batches,
    cell,
    cluster,
    containers,
    events,
    fleet,
    insight,
    jobs,
    layers,
    lineage,
    logs,
    metrics,
    packages,
    profiles,
    replays,
    rescale,
    restores,
    rollouts,
    savepoints,
    secrets,
    status,
    task_moves,
    tokens,
)
from services.job_service.settings import JobServiceSettings
from services.job_service.shared import shared_writes
from services.job_service.task_logs import TaskLogs

# A call is compared with all routes before its own: first those that are called most.
_ROUTES = (
    jobs,
    layers,
    rescale,
    task_moves,
    savepoints,
    profiles,
    secrets,
    restores,
    rollouts,
    batches,
    insight,
    lineage,
    logs,
    metrics,
    replays,
    cluster,
    cell,
    alerts,
    containers,
    packages,
    tokens,
    status,
    fleet,
    events,
)


def create_api(
    engine: Engine,
    clock: Clock,
    settings: JobServiceSettings,
    identity: Identity | None = None,
    vouched: Callable[[str, Call], str] | None = None,
) -> FastAPI:
    """The Job Service's application on a job store. `identity`: who asks containers for analyses and logs. `vouched`:
    reads the address of a browser that a console tells (`ProcessIdentity.vouched`)."""
    app = create_app("job_service", ready=lambda: _ready(engine))
    for routes in _ROUTES:
        add_routes(app, routes.router)
    authenticator = Authenticator(
        engine, clock, enabled=settings.authentication, cache_seconds=settings.job_service_token_cache_seconds
    )
    app.state.parts = Parts(
        engine,
        clock,
        authenticator,
        Sizes(
            settings.job_service_largest_body_bytes,
            settings.job_service_largest_body_of_roles,
            Rates(settings.job_service_bytes_per_second, settings.job_service_bytes_at_once, "bytes"),
        ),
        settings.state_syncer_rollout_share,
        Analyses(engine, AnalysisClient(identity)),
        settings.path_roots,
        settings.runbook_url,
        ReplayClient(identity),
        Probes(settings.task_service_url, settings.kafkas(), settings.reports_old_seconds, identity),
        TaskLogs(engine, TaskLogClient(identity)),
        Census(engine, clock),
        Rates(settings.job_service_calls_per_second, settings.job_service_calls_at_once),
        EventReader(engine, clock, settings.job_service_event_seconds),
        Slots(settings.job_service_event_streams),
        shared_writes(engine, clock, settings.path_roots),
        vouched,
    )
    at_end(app, app.state.parts.events.end)
    _document_problems(app)
    return app


def _ready(engine: Engine) -> dict[str, Any]:
    with transaction(engine) as connection:
        connection.execute(text("SELECT FROM jobs LIMIT 1"))
    return {"store": "reachable"}


def _document_problems(app: FastAPI) -> None:
    """Says in the OpenAPI document that problems are `application/problem+json`."""
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            for operation in _operations(generate()):
                _name_problems(operation["responses"])
        return app.openapi_schema or {}

    app.openapi = openapi  # type: ignore[method-assign]


def _operations(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [operation for path in document["paths"].values() for operation in path.values()]


def _name_problems(responses: dict[str, Any]) -> None:
    for code, response in responses.items():
        if int(code) >= 400 and "application/json" in response.get("content", {}):
            response["content"] = {PROBLEM: response["content"]["application/json"]}
