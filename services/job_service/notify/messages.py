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

from penstock.model.alerts import AlertKind
from services.job_service.notify.targets import Shape, Target

DELIVERY, SIGNATURE = "Penstock-Delivery", "Penstock-Signature"
_FIRST_WAIT_SECONDS, _MOST_WAIT_SECONDS = 2.0, 300.0
GIVE_UP = timedelta(hours=24)
FAILING_ATTEMPTS = 5
"""After so many attempts there is an alert about the target."""
_NEVER_RESOLVED = timedelta(days=365)
"""Alertmanager ends an alert by itself after minutes, unless it is told a later end."""
_SLACK_LINES = 30
_SLACK_CHARACTERS = 300
_OF_JOB = frozenset(
    [
        AlertKind.TASK_CRASHING,
        AlertKind.JOB_LAGGING,
        AlertKind.LAG_UNTRIAGED,
        AlertKind.QUARANTINED,
        AlertKind.ROLLED_BACK,
        AlertKind.ROLLBACK_REFUSED,
        AlertKind.ROLLOUT_HALTED,
        AlertKind.ROLLOUT_LATE,
        AlertKind.MALFORMED_RECORDS,
        AlertKind.PARTITIONS_NOT_READ,
        AlertKind.KEY_FUNCTION_MISMATCH,
        AlertKind.NOT_AWAITED,
        AlertKind.BROKEN_RUNNING_ROW,
        AlertKind.SELECTOR_UNMET,
    ]
)


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


def request_of(
    target: Target, messages: Sequence[Message], *, delivery: str, console_url: str, now: datetime
) -> Request:
    """The request with these alerts. `delivery` names it: the same in each attempt."""
    url, content = target.url.get_secret_value(), _CONTENT[target.shape](messages, delivery, console_url.rstrip("/"))
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


def _for_alertmanager(messages: Sequence[Message], delivery: str, console_url: str) -> Any:
    """`POST /api/v2/alerts`: labels are the same when an alert opens and when it ends."""
    return [
        {
            "labels": {"alertname": each.kind, "subject": each.subject, "service": "penstock"},
            "annotations": {"summary": each.message, "runbook": f"services/ALERTS.md, row {each.kind}"},
            "startsAt": each.raised_at.isoformat(),
            "endsAt": (each.cleared_at or each.raised_at + _NEVER_RESOLVED).isoformat(),
            **({"generatorURL": _link(each, console_url)} if console_url else {}),
        }
        for each in messages
    ]


def _for_slack(messages: Sequence[Message], delivery: str, console_url: str) -> Any:
    opened = sum(each.event is Event.OPENED for each in messages)
    ended = len(messages) - opened
    counted = [f"{count} {word}" for count, word in ((opened, "opened"), (ended, "resolved")) if count]
    lines = [f"*Penstock: {', '.join(counted)}*", *(_slack_line(each, console_url) for each in messages[:_SLACK_LINES])]
    if len(messages) > _SLACK_LINES:
        lines.append(f"and {len(messages) - _SLACK_LINES} more")
    return {"text": "\n".join(lines)}


def _slack_line(message: Message, console_url: str) -> str:
    name = _escaped(f"{message.kind} {message.subject}")
    shown = f"<{_link(message, console_url)}|{name}>" if console_url else name
    mark = ":red_circle:" if message.event is Event.OPENED else ":white_check_mark: resolved"
    return f"{mark} {shown}: {_escaped(message.message.partition(chr(10))[0][:_SLACK_CHARACTERS])}"


def _escaped(text: str) -> str:
    """Slack's three special characters; no text of others becomes a link or a mention."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _as_json(messages: Sequence[Message], delivery: str, console_url: str) -> Any:
    links = [{"url": _link(each, console_url)} if console_url else {} for each in messages]
    alerts = [each.as_json() | link for each, link in zip(messages, links, strict=True)]
    return {"version": 1, "delivery": delivery, "alerts": alerts}


def _link(message: Message, console_url: str) -> str:
    return f"{console_url}/jobs/{message.subject}" if message.kind in _OF_JOB else f"{console_url}/alerts"


_CONTENT = {Shape.ALERTMANAGER: _for_alertmanager, Shape.SLACK: _for_slack, Shape.JSON: _as_json}
