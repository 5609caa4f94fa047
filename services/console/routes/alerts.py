"""Alerts with what to do about them; acknowledging and silencing."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import APIRouter, Request, Response

from penstock.model.alerts import AlertKind
from penstock.wire.alerts import SilenceWrite
from penstock.wire.job_client import JobClient
from services.console.requests import ClientOf, Form, FormOf, beside_fields, page, parts_of, see
from services.console.views import forms
from services.console.views.forms import Errors, Filled

router = APIRouter(include_in_schema=False)
_PAGE = 50
_SILENCE_FIELDS = {"kind": "kind", "subject": "subject", "reason": "reason", "expires_in_seconds": "ends"}


@router.get("/alerts")
def alerts_page(request: Request, client: ClientOf) -> Response:
    """Open alerts, and silences."""
    return _alerts(request, client, {})


def _alerts(request: Request, client: JobClient, filled: Mapping[str, Filled], status: int = 200) -> Response:
    query = request.query_params
    kind = query.get("kind", "") if query.get("kind", "") in set(AlertKind) else ""
    cleared, silenced = query.get("cleared") == "1", query.get("silenced") == "1"
    found = client.alerts(
        kind=kind or None,
        include_cleared=cleared,
        include_silenced=silenced,
        limit=_PAGE,
        cursor=query.get("after") or None,
    )
    return page(
        request,
        "alerts.html",
        status=status,
        alerts=found.alerts,
        following=found.next,
        silences=client.silences(limit=_PAGE).silences,
        kinds=sorted(AlertKind),
        kind=kind,
        cleared=cleared,
        silenced=silenced,
        runbooks=parts_of(request).runbooks,
        runbook_sections=parts_of(request).runbook_sections,
        filled=filled,
        empty=Filled(),
    )


@router.post("/alerts/{alert}/acknowledge")
def acknowledge(request: Request, alert: int, client: ClientOf, form: FormOf) -> Response:
    """Says that the user is working on an alert."""
    errors: Errors = {}
    reason = forms.reason(form.get("reason", ""), errors)
    if not errors:
        with beside_fields(errors, {"reason": "reason"}):
            client.acknowledge(alert, reason=reason)
            return see(request, "/alerts", f"alert {alert} is acknowledged")
    return _alerts(request, client, {f"alert-{alert}": Filled(form, errors)}, 422)


@router.post("/alerts/{alert}/leave")
def leave(request: Request, alert: int, client: ClientOf, form: FormOf) -> Response:
    """Nobody works on the alert any more."""
    client.end_acknowledgement(alert, reason=form.get("reason", ""))
    return see(request, "/alerts", f"alert {alert} is nobody's again")


@router.post("/silences")
def silence(request: Request, client: ClientOf, form: FormOf) -> Response:
    """Leaves alerts out of lists for a while."""
    errors: Errors = {}
    wanted = _silence(form, errors)
    if not errors and wanted is not None:
        with beside_fields(errors, _SILENCE_FIELDS):
            made = client.silence(wanted, idempotency_key=forms.idempotency_key(form))
            return see(request, "/alerts", f"silence {made.id} has begun")
    return _alerts(request, client, {"silence": Filled(form, errors)}, 422)


def _silence(form: Form, errors: Errors) -> SilenceWrite | None:
    kind = forms.alert_kind(form.get("kind", ""), errors)
    reason = forms.reason(form.get("reason", ""), errors)
    seconds = forms.needed_seconds(form.get("ends", ""), errors)
    subject = form.get("subject", "").strip() or "*"
    if len(subject) > 300:
        errors["subject"] = "at most 300 characters"
    if errors:
        return None
    return SilenceWrite.model_construct(kind=kind, subject=subject, reason=reason, expires_in_seconds=seconds)


@router.post("/silences/{silence}/end")
def end_silence(request: Request, silence: int, client: ClientOf, form: FormOf) -> Response:
    """Ends a silence."""
    client.end_silence(silence, reason=form.get("reason", ""))
    return see(request, "/alerts", f"silence {silence} has ended")
