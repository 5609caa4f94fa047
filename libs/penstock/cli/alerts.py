"""Commands about alerts: the list, who works on one, and which are left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from penstock.cli.arguments import AsJson, Reason, RequiredReason
from penstock.cli.connection import client, say_more
from penstock.cli.errors import required
from penstock.cli.output import Whole, cell, is_wide, moment, say, show_json, table
from penstock.cli.parse import duration_seconds
from penstock.model.alerts import AlertKind
from penstock.wire.alerts import SilenceWrite
from penstock.wire.overview import AlertView

AlertNumber = Annotated[int, typer.Argument(min=1, help="number of the alert, as `penstock alerts` shows it")]
SilenceNumber = Annotated[int, typer.Argument(min=1, help="number of the silence")]


def alerts(
    as_json: AsJson = False,
    silenced: Annotated[bool, typer.Option("--silenced", help="also those that a silence leaves out")] = False,
    cleared: Annotated[bool, typer.Option("--cleared", help="also those that have closed")] = False,
) -> None:
    """List open alerts, newest first."""
    page = client().alerts(include_silenced=silenced, include_cleared=cleared)
    if as_json:
        return show_json(page)
    more = ("severity", "runbook") if is_wide() else ()
    rows = [
        (a.id, a.kind, a.subject, Whole(a.message), a.times, moment(a.raised_at), _standing(a), *_more(a, more))
        for a in page.alerts
    ]
    table(("number", "kind", "subject", "message", "times", "raised", "standing", *more), rows)
    return say_more(page.next)


def acknowledge(
    number: AlertNumber,
    reason: Reason = "",
    time: Annotated[str | None, typer.Option("--for", help="30m, 2h, 1d; default: until the alert closes")] = None,
    end: Annotated[bool, typer.Option("--end", help="nobody works on it any more")] = False,
) -> None:
    """Say that you work on an alert. It stays in the list, with your name."""
    if end:
        shown = client().end_acknowledgement(number, reason=reason)
    else:
        seconds = None if time is None else duration_seconds(time)
        shown = client().acknowledge(number, reason=reason, expires_in_seconds=seconds)
    say(f"{shown.kind} {shown.subject}: {_standing(shown)}")


def silences(
    as_json: AsJson = False, ended: Annotated[bool, typer.Option("--ended", help="also those that have ended")] = False
) -> None:
    """List silences, newest first."""
    page = client().silences(include_ended=ended)
    if as_json:
        return show_json(page)
    rows = [(s.id, s.kind or "any", s.subject, s.author, s.reason, s.created_at, s.expires_at) for s in page.silences]
    table(("number", "kind", "subject", "author", "reason", "since", "ends"), rows)
    return say_more(page.next)


def create_silence(
    kind: Annotated[AlertKind | None, typer.Option(help="leave out this kind; default: every kind")] = None,
    subject: Annotated[str, typer.Option(help="leave out these subjects; * stands for any characters")] = "*",
    reason: RequiredReason = "",
    time: Annotated[str, typer.Option("--for", help="how long: 30m, 2h, 1d; required")] = "",
) -> None:
    """Leave alerts out of the list for a while. They are raised and recorded as always."""
    if not reason.strip():
        raise required("say why: --reason", field="reason")
    if not time:
        raise required("say for how long: --for 2h", field="for")
    seconds = duration_seconds(time)
    made = client().silence(SilenceWrite(kind=kind, subject=subject, reason=reason, expires_in_seconds=seconds))
    say(f"silence {made.id}: {made.kind or 'any kind'} {made.subject}, ends {cell(made.expires_at)}")


def end_silence(number: SilenceNumber, reason: Reason = "") -> None:
    """End a silence. The alerts that it left out are listed again."""
    ended = client().end_silence(number, reason=reason)
    say(f"silence {ended.id} has ended")


def _more(alert: AlertView, names: Sequence[str]) -> list[str]:
    return [getattr(alert, name) for name in names]


def _standing(alert: AlertView) -> str:
    """What people have said about it."""
    if alert.cleared_at is not None:
        return f"closed {cell(alert.cleared_at)}"
    said = [] if alert.silence is None else [f"silence {alert.silence}"]
    if alert.acknowledged_by is not None:
        until = "" if alert.acknowledged_until is None else f", ends {cell(alert.acknowledged_until)}"
        said.append(f"acknowledged by {alert.acknowledged_by}{until}")
    return "; ".join(said) or "open"
