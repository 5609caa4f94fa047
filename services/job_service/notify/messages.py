"""From alerts that opened or ended to the request that a target gets. Pure: the time is an argument.

A request that is sent again is the same, but for the time in its signature. `Penstock-Delivery` names it.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from penstock.model.alert_rules import About, limit_of, rule_of, runbook_of, severity_of
from penstock.model.alerts import AlertKind
from services.job_service.notify.targets import Shape, Target

DELIVERY, SIGNATURE = "Penstock-Delivery", "Penstock-Signature"
_FIRST_WAIT_SECONDS, _MOST_WAIT_SECONDS = 2.0, 300.0
GIVE_UP = timedelta(hours=24)
FAILING_ATTEMPTS = int(limit_of(AlertKind.NOTIFICATIONS_FAILING))
"""After so many attempts there is an alert about the target."""
_NEVER_RESOLVED = timedelta(days=365)
"""Alertmanager ends an alert by itself after minutes, unless it is told a later end."""
_SLACK_LINES = 30
_SLACK_CHARACTERS = 300


class Event(StrEnum):
    """What became of an alert."""

    OPENED = "opened"
    RESOLVED = "resolved"


class Message(NamedTuple):
    """An alert that opened or ended."""

    alert: int
    event: Event
    kind: str
    subject: str
    message: str
    raised_at: datetime
    cleared_at: datetime | None

    def as_json(self) -> dict[str, Any]:
        """As it is stored, and sent by the shape `json`."""
        ended = None if self.cleared_at is None else self.cleared_at.isoformat()
        return self._asdict() | {"raised_at": self.raised_at.isoformat(), "cleared_at": ended}

    @classmethod
    def of_json(cls, stored: Mapping[str, Any]) -> Message:
        """What `as_json` wrote."""
        ended = stored["cleared_at"]
        return cls(
            **{
                **stored,
                "event": Event(stored["event"]),
                "raised_at": datetime.fromisoformat(stored["raised_at"]),
                "cleared_at": None if ended is None else datetime.fromisoformat(ended),
            }
        )


class Request(NamedTuple):
    """What is sent by POST. `url` may be a secret."""

    url: str
    headers: Mapping[str, str]
    body: bytes


def wait_seconds(attempts: int) -> float:
    """How long after that many failed attempts the next one comes: 2 s, then twice as long each time, at most 5 min."""
    return min(_MOST_WAIT_SECONDS, _FIRST_WAIT_SECONDS * 2.0 ** min(attempts - 1, 30))


class Links(NamedTuple):
    """Where people read more: the console, and the files of this repository; empty: nowhere."""

    console_url: str = ""
    runbook_url: str = ""

    def of(self, message: Message) -> str | None:
        """The page of the console about the alert."""
        if not self.console_url:
            return None
        rule, base = rule_of(message.kind), self.console_url.rstrip("/")
        is_of_job = rule is not None and rule.about is About.JOB
        return f"{base}/jobs/{message.subject}" if is_of_job else f"{base}/alerts"

    def runbook(self, message: Message) -> str:
        """Its row of the page of alerts; a path without a base address."""
        return runbook_of(message.kind, self.runbook_url)


def request_of(target: Target, messages: Sequence[Message], *, delivery: str, links: Links, now: datetime) -> Request:
    """The request with these alerts. `delivery` names it: the same in each attempt."""
    url, content = target.url.get_secret_value(), _CONTENT[target.shape](messages, delivery, links)
    body = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
    headers = {"Content-Type": "application/json", DELIVERY: delivery}
    if target.secret is not None:
        headers[SIGNATURE] = signature(target.secret.get_secret_value(), int(now.timestamp()), body)
    if target.shape is Shape.ALERTMANAGER:
        url = f"{url.rstrip('/')}/api/v2/alerts"
    return Request(url, headers, body)


def signature(secret: str, at: int, body: bytes) -> str:
    """`t=<seconds since 1970>,v1=<hex>`: HMAC-SHA256 of `<t>.<body>`. A receiver refuses an old `t`."""
    return f"t={at},v1={hmac.digest(secret.encode(), f'{at}.'.encode() + body, 'sha256').hex()}"


def _for_alertmanager(messages: Sequence[Message], delivery: str, links: Links) -> Any:
    """`POST /api/v2/alerts`: labels are the same when an alert opens and when it ends."""
    return [
        {
            "labels": {
                "alertname": each.kind,
                "subject": each.subject,
                "service": "penstock",
                "severity": severity_of(each.kind),
            },
            "annotations": {"summary": each.message, "runbook": links.runbook(each)},
            "startsAt": each.raised_at.isoformat(),
            "endsAt": (each.cleared_at or each.raised_at + _NEVER_RESOLVED).isoformat(),
            **({"generatorURL": url} if (url := links.of(each)) else {}),
        }
        for each in messages
    ]


def _for_slack(messages: Sequence[Message], delivery: str, links: Links) -> Any:
    opened = sum(each.event is Event.OPENED for each in messages)
    ended = len(messages) - opened
    counted = [f"{count} {word}" for count, word in ((opened, "opened"), (ended, "resolved")) if count]
    lines = [f"*Penstock: {', '.join(counted)}*", *(_slack_line(each, links) for each in messages[:_SLACK_LINES])]
    if len(messages) > _SLACK_LINES:
        lines.append(f"and {len(messages) - _SLACK_LINES} more")
    return {"text": "\n".join(lines)}


def _slack_line(message: Message, links: Links) -> str:
    name, url = _escaped(f"{message.kind} {message.subject}"), links.of(message)
    shown = f"<{url}|{name}>" if url else name
    mark = ":red_circle:" if message.event is Event.OPENED else ":white_check_mark: resolved"
    told = f"{mark} {shown}: {_escaped(message.message.partition(chr(10))[0][:_SLACK_CHARACTERS])}"
    if message.event is not Event.OPENED:
        return told
    runbook = links.runbook(message)
    return f"{told} (<{runbook}|what to do>)" if links.runbook_url else f"{told} (what to do: {runbook})"


def _escaped(text: str) -> str:
    """Slack's three special characters; no text of others becomes a link or a mention."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _as_json(messages: Sequence[Message], delivery: str, links: Links) -> Any:
    alerts = [
        each.as_json()
        | {"severity": severity_of(each.kind), "runbook": links.runbook(each)}
        | ({"url": url} if (url := links.of(each)) else {})
        for each in messages
    ]
    return {"version": 1, "delivery": delivery, "alerts": alerts}


_CONTENT = {Shape.ALERTMANAGER: _for_alertmanager, Shape.SLACK: _for_slack, Shape.JSON: _as_json}
