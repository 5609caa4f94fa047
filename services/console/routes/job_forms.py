"""Forms about a job. What writes a layer shows its plan first; the plan's page has the form that confirms it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from fastapi import APIRouter, Request, Response

from penstock.config.model import DesiredState
from penstock.control.errors import Conflict, NotFound, PenstockError, UserError
from penstock.wire.desired import FIELD, start_change
from penstock.wire.job_client import Expiring, JobClient
from penstock.wire.jobs import Written
from penstock.wire.savepoints import waits_for
from penstock.wire.service_client import Noted
from services.console.requests import NOT_OF_A_FIELD, ClientOf, Form, FormOf, Name, SessionOf, beside_fields, page, see
from services.console.routes.job import show_configuration, show_history
from services.console.views import forms, rollouts, words
from services.console.views.forms import Errors, Filled
from services.console.views.plans import set_now, shown

router = APIRouter(include_in_schema=False)
_FIELDS = {"reason": "reason", "expires_in_seconds": "ends", "allow_repeats": "allow_repeats"}
_NAMES = {**_FIELDS, "name": "name"}
_PLANNED = ("override", "rescale", "stop", "start")
_ORDERS: Mapping[str, Callable[..., Written]] = {
    rollouts.PAUSE.name: JobClient.pause_rollout,
    rollouts.RESUME.name: JobClient.resume_rollout,
    rollouts.ABORT.name: JobClient.abort_rollout,
}
_CALLS = {"restart": JobClient.restart, "release": JobClient.release, **_ORDERS}


class _Wanted(NamedTuple):
    """A write to a layer; `layer` None: the one that the Job Service chooses for the token."""

    patch: Mapping[str, Any]
    layer: str | None
    ends: forms.Expiry


@router.get("/jobs/{job}/change")
def change(request: Request, job: Name, client: ClientOf, session: SessionOf) -> Response:
    """All forms about a job."""
    return _change(request, client, job, {})


def _change(request: Request, client: JobClient, job: str, filled: Mapping[str, Filled], status: int = 200) -> Response:
    session = request.state.session
    layers = [layer.name for layer in reversed(client.layers()) if session.may_write_layer(layer.name)]
    leaf = next(leaf for leaf in client.explain(job).leaves if leaf.field == FIELD)
    return page(
        request,
        "change.html",
        status=status,
        tab="change",
        job=client.get_job(job),
        filled={name: filled.get(name, Filled()) for name in (*_PLANNED, *_CALLS, "savepoint")},
        orders=rollouts.possible(client.rollout(job)),
        layers=layers,
        is_stopped=leaf.value == DesiredState.STOPPED,
        fields=client.fields(),
    )


@router.post("/jobs/{job}/plan")
def plan(request: Request, job: Name, client: ClientOf, form: FormOf) -> Response:
    """What a change would do. Writes nothing."""
    errors: Errors = {}
    what = form.get("what", "")
    if what not in _PLANNED:
        raise UserError("this form is not as the page made it: open the page again", field="what", rule="one_of")
    forms.reason(form.get("reason", ""), errors)
    try:
        wanted = _wanted(client, job, what, form, errors)
        if errors:
            return _change(request, client, job, {what: Filled(form, errors)}, 422)
        found = client.plan(job, wanted.patch, layer=wanted.layer, allow_repeats=_allows_repeats(form))
    except NOT_OF_A_FIELD:
        raise
    except UserError as error:
        beside = {"rescale": "task_count", "override": "changes"}.get(what, forms.WHOLE)
        return _change(request, client, job, {what: Filled(form, forms.refused(error, _FIELDS, beside))}, error.status)
    content, layer = json.dumps(wanted.patch), client.get_layer(job, found.layer)
    return page(
        request,
        "plan.html",
        tab="change",
        job=client.get_job(job),
        plan=shown(found),
        set_now=set_now(layer.config),
        ends_now=layer.expires_at,
        form=form,
        allows_repeats=_allows_repeats(form),
        what=what,
        content=content,
        ends=form.get("ends", "") or ("" if what == "override" else "never"),
    )


def _wanted(client: JobClient, job: str, what: str, form: Form, errors: Errors) -> _Wanted:
    expiry = forms.ends(form.get("ends", ""), errors)
    if what == "override":
        return _Wanted(forms.changes(form.get("changes", ""), errors), form.get("layer") or None, expiry)
    if what == "rescale":
        return _Wanted({"task_count": forms.task_count(form.get("task_count", ""), errors)}, None, expiry)
    if what == "stop":
        return _Wanted({FIELD: DesiredState.STOPPED.value}, None, expiry)
    leaf = next(leaf for leaf in client.explain(job).leaves if leaf.field == FIELD)
    start = start_change(leaf)
    if start is None:
        raise Conflict(f"{job} is already set to run", field=FIELD, rule="stopped")
    return _Wanted({FIELD: start.value}, start.layer, expiry)


@router.post("/jobs/{job}/confirm")
def confirm(request: Request, job: Name, client: ClientOf, form: FormOf) -> Response:
    """Makes the change whose plan was shown, unless the layer has changed since."""
    errors: Errors = {}
    what = form.get("what", "") if form.get("what") in _PLANNED else "override"
    reason, expiry = forms.reason(form.get("reason", ""), errors), forms.ends(form.get("ends", ""), errors)
    patch = forms.changes(form.get("content", ""), errors)
    version = forms.whole_number(form.get("version", ""))
    if not errors:
        given = Expiring(reason=reason, expires_in_seconds=expiry, whole_layer=form.get("whole_layer") == "yes")
        given["idempotency_key"] = forms.idempotency_key(form)
        with beside_fields(errors, _FIELDS):
            allows = _allows_repeats(form)
            written = client.patch_layer(
                job, form.get("layer", ""), patch, if_match=version, allow_repeats=allows, **given
            )
            return see(request, f"/jobs/{job}", f"written to {written.layer} as revision {written.revision}")
    typed = {**form, "changes": json.dumps(patch, indent=2)}
    return _change(request, client, job, {what: Filled(typed, errors)}, 422)


def _allows_repeats(form: Form) -> bool:
    return form.get("allow_repeats") == "yes"


@router.post("/jobs/{job}/restart")
def restart(request: Request, job: Name, client: ClientOf, form: FormOf) -> Response:
    """Restarts all tasks."""
    return _noted(request, client, job, form, "restart")


@router.post("/jobs/{job}/release")
def release(request: Request, job: Name, client: ClientOf, form: FormOf) -> Response:
    """Lets a quarantined or failed job be tried again."""
    return _noted(request, client, job, form, "release")


@router.post("/jobs/{job}/rollout/{order}")
def order_rollout(request: Request, job: Name, order: Name, client: ClientOf, form: FormOf) -> Response:
    """Pauses, resumes or aborts the rollout of the job's package."""
    if order not in _ORDERS:
        raise NotFound("a rollout is paused, resumed or aborted", field="order", rule="one_of")
    return _noted(request, client, job, form, order)


@router.post("/jobs/{job}/savepoint")
def savepoint(request: Request, job: Name, client: ClientOf, form: FormOf) -> Response:
    """Asks for a savepoint."""
    return _noted(request, client, job, form, "savepoint")


def _noted(request: Request, client: JobClient, job: str, form: Form, what: str) -> Response:
    """A call with a reason and no plan: one of `_CALLS`, or a savepoint."""
    errors: Errors = {}
    given = Noted(reason=forms.reason(form.get("reason", ""), errors), idempotency_key=forms.idempotency_key(form))
    if what == "savepoint":
        forms.savepoint_name(form.get("name", ""), errors)
    if not errors:
        with beside_fields(errors, _NAMES, kind=PenstockError):
            if what == "savepoint":
                made = client.create_savepoint(job, form.get("name", "").strip() or None, **given)
                return see(request, f"/jobs/{job}/savepoints", f"savepoint {made.name} is asked for")
            return see(request, f"/jobs/{job}", f"{what} is revision {_CALLS[what](client, job, **given).revision}")
    return _change(request, client, job, {what: Filled(form, errors)}, 422)


@router.post("/jobs/{job}/layers/{layer}/drop")
def drop(request: Request, job: Name, layer: Name, client: ClientOf, form: FormOf) -> Response:
    """Drops a layer, which brings the values below it back."""
    reason = _required_reason(form)
    version = forms.whole_number(form.get("version", ""))
    try:
        written = client.drop_layer(job, layer, if_match=version, allow_repeats=_allows_repeats(form), reason=reason)
    except Conflict as refused:
        return show_configuration(request, client, job, {layer: _with_choice(form, refused)}, refused.status)
    return see(request, f"/jobs/{job}", f"{layer} was dropped as revision {written.revision}")


@router.post("/jobs/{job}/layers/{layer}/revert")
def revert(request: Request, job: Name, layer: Name, client: ClientOf, form: FormOf) -> Response:
    """Makes a layer again what it was at a version."""
    reason = _required_reason(form)
    version, present = (forms.whole_number(form.get(name, "")) for name in ("version", "present"))
    ends = _end(form)
    allows = _allows_repeats(form)
    try:
        written = client.revert_layer(
            job, layer, version, if_match=present, allow_repeats=allows, reason=reason, expires_in_seconds=ends
        )
    except Conflict as refused:
        filled = {f"{layer}-{version}": _with_choice(form, refused)}
        return show_history(request, client, job, form.get("after", ""), filled, refused.status)
    done = f"{layer} is again as at version {version}, by revision {written.revision}"
    return see(request, f"/jobs/{job}", f"{done}{_ends_in_words(written.expires_at)}")


def _with_choice(form: Form, refused: Conflict) -> Filled:
    """The form with its choice that rows may come twice. Raises what was refused for another reason."""
    if refused.field != "allow_repeats":
        raise refused
    return Filled(form, forms.refused(refused, _FIELDS))


def _end(form: Form) -> forms.Expiry:
    """When the layer is to end: as at the version without a time. Raises UserError."""
    errors: Errors = {}
    found = forms.ends(form.get("ends", ""), errors)
    if errors:
        raise UserError(errors["ends"], field="ends", rule="duration")
    return found


def _ends_in_words(at: datetime | None) -> str:
    return "" if at is None else f". It ends at {words.clock(at)}"


def _required_reason(form: Form) -> str:
    """The reason of a form whose browser asks for one. Raises UserError without it."""
    errors: Errors = {}
    reason = forms.reason(form.get("reason", ""), errors)
    if errors:
        raise UserError(errors["reason"], field="reason", rule="required")
    return reason


@router.get("/jobs/{job}/savepoints")
def savepoints(request: Request, job: Name, client: ClientOf) -> Response:
    """Savepoints and generations of the job's checkpoints."""
    found, sync = client.savepoints(job, limit=100), client.sync(job)
    return page(
        request,
        "savepoints.html",
        tab="savepoints",
        job=client.get_job(job),
        savepoints=found.savepoints,
        waits_for=waits_for,
        state=sync.state,
        sync=sync,
    )
