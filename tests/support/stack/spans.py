"""Spans that the processes of a stack sent to a collector: OTLP/HTTP with JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tests.support.job_service.webhook import Webhook

PATH = "/v1/traces"


class Span(NamedTuple):
    """A span. `service`: who sent it. `ended_ns`: nanoseconds since 1970. `parent`, `task`: None without one."""

    service: str
    name: str
    trace: str
    own: str
    parent: str | None
    ended_ns: int
    task: str | None


def spans_of(collector: Webhook, trace: str | None = None) -> list[Span]:
    """What a collector got, of one trace or of all, in the order in which it ended."""
    sent = (request.json for request in list(collector.received) if request.path == PATH)
    found = (span for body in sent for span in _spans(body))
    return sorted((span for span in found if trace in (None, span.trace)), key=lambda span: span.ended_ns)


def _spans(body: Any) -> Iterator[Span]:
    for of_resource in body["resourceSpans"]:
        service = _attributes(of_resource["resource"])["service.name"]
        for each in (span for scope in of_resource["scopeSpans"] for span in scope["spans"]):
            task = _attributes(each).get("penstock.task")
            parent, ended_ns = each.get("parentSpanId"), int(each["endTimeUnixNano"])
            yield Span(service, each["name"], each["traceId"], each["spanId"], parent, ended_ns, task)


def _attributes(owner: Mapping[str, Any]) -> dict[str, str]:
    """Those that are texts."""
    return {each["key"]: each["value"].get("stringValue", "") for each in owner["attributes"]}
