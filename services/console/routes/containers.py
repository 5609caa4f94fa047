"""Containers: how full they are, and taking one out of use."""

from __future__ import annotations

from itertools import islice

from fastapi import APIRouter, Request, Response

from penstock.wire.job_client import JobClient
from penstock.wire.service_client import Noted
from services.console.requests import ClientOf, Form, FormOf, Name, beside_fields, page, parts_of, see
from services.console.views import containers as views
from services.console.views import forms
from services.console.views.forms import Errors, Filled

router = APIRouter(include_in_schema=False)
MOST = 5_000
_TASKS = 1000
_ACTIONS = ("cordon", "drain", "uncordon")


@router.get("/containers")
def containers_page(request: Request, client: ClientOf) -> Response:
    """The heat map of a dimension, and a table."""
    found = list(islice(client.all_containers(), MOST))
    dimensions = views.dimensions(found)
    asked = request.query_params.get("dimension", "")
    dimension = asked if asked in dimensions else next(iter(dimensions), "cpu_cores")
    return page(
        request,
        "containers.html",
        containers=found,
        dimensions=dimensions,
        dimension=dimension,
        regions=views.regions(found, dimension),
        share=views.share,
        shades=range(views.SHADES + 1),
    )


@router.get("/containers/{name}")
def container_page(request: Request, name: Name, client: ClientOf) -> Response:
    """One container, with its tasks and the forms about it."""
    return _container(request, client, name, Filled())


def _container(request: Request, client: JobClient, name: str, filled: Filled, status: int = 200) -> Response:
    found = client.container(name)
    running = client.container_tasks(name, limit=_TASKS, cursor=request.query_params.get("after") or None)
    full = {dimension: views.share(found, dimension) for dimension in views.dimensions([found])}
    return page(
        request,
        "container.html",
        status=status,
        container=found,
        full=full,
        filled=filled,
        tasks=views.worst_first(running.tasks),
        following=running.next,
        alerts=client.alerts(subject=name).alerts,
        runbooks=parts_of(request).runbooks,
    )


@router.post("/containers/{name}")
def change_container(request: Request, name: Name, client: ClientOf, form: FormOf) -> Response:
    """Cordons, drains or uncordons it."""
    errors: Errors = {}
    reason = forms.reason(form.get("reason", ""), errors)
    if form.get("action") not in _ACTIONS:
        errors["action"] = f"choose one of {', '.join(_ACTIONS)}"
    if not errors:
        with beside_fields(errors, {"reason": "reason"}):
            _act(client, name, form, reason)
            return see(request, f"/containers/{name}", f"{form['action']} is recorded")
    return _container(request, client, name, Filled(form, errors), 422)


def _act(client: JobClient, name: str, form: Form, reason: str) -> None:
    given = Noted(reason=reason, idempotency_key=forms.idempotency_key(form))
    calls = {"cordon": client.cordon, "drain": client.drain, "uncordon": client.uncordon}
    calls[form["action"]](name, **given)
