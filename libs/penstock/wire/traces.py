"""One OpenTelemetry trace for each revision, from its write to the start of its tasks. Off unless a collector is named.

Every process on the way of a change logs its revision (`penstock.control.logs`). Each such line becomes a span. The
trace's id and the id of its first span follow from the revision, so no process hands an id to the next one. Spans go as
OTLP/HTTP with JSON to a collector, from a thread of its own; what it does not take in time is dropped and counted.
"""

from __future__ import annotations

import hashlib
import threading
import time
import urllib.request
from collections import deque
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from typing import Any

import orjson
from prometheus_client import Counter

from penstock.control import logs

WRITTEN = "expected configuration written"
"""The line of the Job Service that begins a trace."""
MOST_WAITING = 10_000
SEND_SECONDS = 2.0
_MOST_AT_ONCE = 512
_TIMEOUT_SECONDS = 5.0
_SHOWN = ("job", "task", "layer", "version", "action", "kind", "commit", "container", "epoch", "reason", "host")
_SERVER, _INTERNAL = 2, 1
_FAILED = 2
_NANOSECONDS = 1_000_000_000
DROPPED = Counter("penstock_spans_dropped", "Spans that no collector took in time.")


def span_of(event: Mapping[str, Any], now_ns: int) -> dict[str, Any] | None:
    """A log line as a span of OTLP; None when it is about no revision. It ends now, in nanoseconds since 1970, and has
    begun `seconds` of the line before. Pure."""
    revision, name = event.get("revision"), event.get("event")
    if not isinstance(revision, int) or isinstance(revision, bool) or revision <= 0 or not isinstance(name, str):
        return None
    seconds = event.get("seconds")
    lasted = int(seconds * _NANOSECONDS) if isinstance(seconds, int | float) and seconds > 0 else 0
    root, shown = _hex(8, revision, "first"), {key: event[key] for key in _SHOWN if event.get(key) is not None}
    is_first = name == WRITTEN
    own = root if is_first else _hex(8, revision, name, event.get("service"), event.get("task"), now_ns)
    span = {
        "traceId": trace_id(revision),
        "spanId": own,
        "name": name,
        "kind": _SERVER if is_first else _INTERNAL,
        "startTimeUnixNano": str(now_ns - lasted),
        "endTimeUnixNano": str(now_ns),
        "attributes": _attributes({"penstock.revision": revision, **{f"penstock.{k}": v for k, v in shown.items()}}),
    }
    if not is_first:
        span["parentSpanId"] = root
    if event.get("level") in ("error", "critical") or event.get("error") is not None:
        span["status"] = {"code": _FAILED, "message": str(event.get("error", name))[:200]}
    return span


def trace_id(revision: int) -> str:
    """The id of the trace of a revision, in hex."""
    return _hex(16, revision, "trace")


def request_body(service: str, spans: Sequence[Mapping[str, Any]]) -> bytes:
    """`ExportTraceServiceRequest` as JSON. Pure."""
    resource = {"attributes": _attributes({"service.name": f"penstock-{service}", "service.namespace": "penstock"})}
    scope = {"scope": {"name": "penstock"}, "spans": list(spans)}
    return orjson.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]})


def _attributes(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items()]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": str(value)[:300]}


def _hex(size: int, *parts: object) -> str:
    return hashlib.sha256("/".join(map(str, ("penstock", *parts))).encode()).hexdigest()[: 2 * size]


class Traces:
    """Sends the spans of this process. `url`: the collector's base address, such as `http://127.0.0.1:4318`."""

    def __init__(self, url: str, service: str, send_seconds: float = SEND_SECONDS) -> None:
        self._url = f"{url.rstrip('/')}/v1/traces"
        self._service = service
        self._send_seconds = send_seconds
        self._waiting: deque[dict[str, Any]] = deque()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="traces", daemon=True)

    def start(self) -> None:
        """From now on log lines are taken."""
        logs.listeners.append(self.take)
        self._thread.start()

    def stop(self) -> None:
        """Sends what waits, once."""
        logs.listeners.remove(self.take)
        self._stopping.set()
        self._thread.join(2 * _TIMEOUT_SECONDS)

    def take(self, event: Mapping[str, Any]) -> None:
        """Keeps the span of a log line until it is sent. Never waits and never raises."""
        span = span_of(event, time.time_ns())
        if span is None:
            return
        if len(self._waiting) >= MOST_WAITING:
            DROPPED.inc()
        else:
            self._waiting.append(span)

    def _run(self) -> None:
        while not self._stopping.wait(self._send_seconds):
            self._send_all()
        self._send_all()

    def _send_all(self) -> None:
        while self._waiting:
            spans = [self._waiting.popleft() for _ in range(min(_MOST_AT_ONCE, len(self._waiting)))]
            if not self._send(request_body(self._service, spans)):
                DROPPED.inc(len(spans))
                return

    def _send(self, body: bytes) -> bool:
        """Not logged when it fails: a log line would be a span again. Without httpx: not every service imports it."""
        request = urllib.request.Request(self._url, body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS):
                return True
        except (OSError, HTTPException):
            return False
