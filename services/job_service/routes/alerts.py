"""Alerts: the list, acknowledgements, silences."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Body, Path, Response
from sqlalchemy import Connection

from penstock.control.errors import Conflict, InvalidConfig, NotFound
from penstock.model.cell import CellAction, CellEntry
from penstock.store.cell_history import record
from penstock.store.engine import snapshot
from penstock.wire.alerts import AcknowledgeWrite, SilencePage, SilenceView, SilenceWrite
from penstock.wire.overview import AlertPage, AlertRow, AlertView
from services.job_service import access, requests
from services.job_service.answers import Answer, answer
from services.job_service.requests import CallOf, PageOf100, PartsOf, respond
from services.job_service.store import alerts, overview

router = requests.router_of("alerts")
AlertNumber = Annotated[int, Path(ge=1, le=2**62, description="the alert's number")]
SilenceNumber = Annotated[int, Path(ge=1, le=2**62, description="the silence's number")]
AcknowledgeBody = Annotated[AcknowledgeWrite, Body(default_factory=AcknowledgeWrite)]


@router.get("/v1/alerts", response_model=AlertPage)
def list_alerts(
    parts: PartsOf,
    page: PageOf100,
    kind: requests.OptionalText = None,
    subject: requests.OptionalText = None,
    include_cleared: bool = False,
    include_silenced: bool = False,
) -> AlertPage:
    """Open alerts, newest first; cleared and silenced ones when asked for."""
    asked: dict[str, Any] = {"limit": page.limit, "before_id": page.after_number(), "kind": kind, "subject": subject}
    shown = {"include_cleared": include_cleared, "include_silenced": include_silenced}
    with snapshot(parts.engine) as connection:
        rows = overview.alerts_page(connection, **shown, **asked)
    shown_rows = [AlertView.of(row, parts.runbook_url) for row in rows]
    return AlertPage(alerts=shown_rows, next=page.next(rows, lambda row: row.id))


@router.post("/v1/alerts/{alert}/acknowledgement", response_model=AlertView)
@requests.needs(access.of_role(access.MAY_OPERATE))
def acknowledge_alert(alert: AlertNumber, body: AcknowledgeBody, parts: PartsOf, call: CallOf) -> Response:
    """Says that the caller works on an open alert, until it closes or for the time given. Replaces an
    acknowledgement before. The alert stays in all lists."""

    def work(connection: Connection) -> Answer:
        seconds = body.expires_in_seconds
        done = alerts.acknowledge(connection, alert, author=call.author, reason=body.reason, seconds=seconds)
        shown = _require_alert(connection, alert)
        if not done:
            raise Conflict(f"the alert {alert} has closed", field="alert", rule="open")
        until = {"alert": alert, "until": shown.acknowledged_until}
        entry = CellEntry(call.author, CellAction.ALERT_ACKNOWLEDGED, _named(shown), body.reason, new=until)
        record(connection, entry)
        return answer(200, AlertView.of(shown, parts.runbook_url))

    return respond(call.run(work))


@router.delete("/v1/alerts/{alert}/acknowledgement", response_model=AlertView)
@requests.needs(access.of_role(access.MAY_OPERATE))
def end_acknowledgement(alert: AlertNumber, parts: PartsOf, call: CallOf, reason: requests.Text = "") -> Response:
    """Nobody works on the alert any more. May be repeated."""

    def work(connection: Connection) -> Answer:
        before = _require_alert(connection, alert)
        if alerts.end_acknowledgement(connection, alert):
            old = {"alert": alert, "by": before.acknowledged_by, "until": before.acknowledged_until}
            record(
                connection,
                CellEntry(call.author, CellAction.ACKNOWLEDGEMENT_ENDED, _named(before), reason, old=old),
            )
        return answer(200, AlertView.of(_require_alert(connection, alert), parts.runbook_url))

    return respond(call.run(work))


@router.get("/v1/silences", response_model=SilencePage)
def list_silences(parts: PartsOf, page: PageOf100, include_ended: bool = False) -> SilencePage:
    """Silences that go on, newest first; those that have ended when asked for."""
    before = page.after_number()
    with snapshot(parts.engine) as connection:
        rows = alerts.silences_page(connection, limit=page.limit, before_id=before, include_ended=include_ended)
    return SilencePage(silences=rows, next=page.next(rows, lambda row: row.id))


@router.post("/v1/silences", response_model=SilenceView, status_code=201)
@requests.needs(access.of_role(access.MAY_OPERATE))
def silence_alerts(body: SilenceWrite, call: CallOf) -> Response:
    """Leaves alerts of this kind and about these subjects out of lists for a while. They are raised and recorded as
    always, and shown with `include_silenced`."""
    if body.kind is None and not body.subject.strip("*"):
        raise InvalidConfig(
            "a silence of all alerts hides the cell: name a kind or a subject", field="subject", rule="names_something"
        )

    def work(connection: Connection) -> Answer:
        made = alerts.silence(connection, body, call.author)
        record(
            connection,
            CellEntry(call.author, CellAction.SILENCE_CREATED, str(made.id), body.reason, new=made.model_dump()),
        )
        return answer(201, made)

    return respond(call.run(work))


@router.delete("/v1/silences/{silence}", response_model=SilenceView)
@requests.needs(access.of_role(access.MAY_OPERATE))
def end_silence(silence: SilenceNumber, call: CallOf, reason: requests.Text = "") -> Response:
    """Ends a silence. May be repeated."""

    def work(connection: Connection) -> Answer:
        before = _require_silence(connection, silence)
        if alerts.end_silence(connection, silence):
            entry = CellEntry(call.author, CellAction.SILENCE_ENDED, str(silence), reason, old=before.model_dump())
            record(connection, entry)
        return answer(200, _require_silence(connection, silence))

    return respond(call.run(work))


def _require_alert(connection: Connection, number: int) -> AlertRow:
    found = alerts.alert(connection, number)
    if found is None:
        raise NotFound(f"there is no alert {number}", field="alert", rule="known")
    return found


def _require_silence(connection: Connection, number: int) -> SilenceView:
    found = alerts.find_silence(connection, number)
    if found is None:
        raise NotFound(f"there is no silence {number}", field="silence", rule="known")
    return found


def _named(alert: AlertRow) -> str:
    return f"{alert.kind} {alert.subject}"
