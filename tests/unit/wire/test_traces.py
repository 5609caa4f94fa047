"""Log lines as spans: one trace a revision, without any id that processes hand on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from penstock.control import logs
from penstock.wire import traces
from penstock.wire.traces import DROPPED, WRITTEN, Traces, request_body, span_of, trace_id

NOW = 1_700_000_000_000_000_000
LINE = {"event": "job committed", "service": "state_syncer", "level": "info", "job": "etl", "revision": 7}


def span(**changes: Any) -> dict[str, Any]:
    found = span_of(LINE | changes, NOW)
    assert found is not None
    return found


def test_the_hops_of_a_revision_are_one_trace_below_its_write() -> None:
    written = span(event=WRITTEN, service="job_service")
    children = [span(), span(event="task starts", service="task_manager", task="etl/0"), span(task="etl/1")]
    assert {each["traceId"] for each in (written, *children)} == {trace_id(7)}
    assert {each["parentSpanId"] for each in children} == {written["spanId"]}
    assert "parentSpanId" not in written
    assert len({each["spanId"] for each in (written, *children)}) == 4
    assert trace_id(8) != trace_id(7)
    assert (len(trace_id(7)), len(written["spanId"])) == (32, 16)


def test_a_span_ends_with_its_line_and_lasted_as_the_line_says() -> None:
    found = span(seconds=1.5)
    assert int(found["endTimeUnixNano"]) == NOW
    assert int(found["endTimeUnixNano"]) - int(found["startTimeUnixNano"]) == 1_500_000_000
    attributes = {each["key"]: each["value"] for each in found["attributes"]}
    assert attributes["penstock.job"] == {"stringValue": "etl"}
    assert attributes["penstock.revision"] == {"intValue": "7"}
    assert "status" not in found
    assert span(level="error", error="no disk")["status"] == {"code": 2, "message": "no disk"}


@pytest.mark.parametrize("line", [{"event": "x"}, LINE | {"revision": 0}, LINE | {"revision": None}, {"revision": 7}])
def test_a_line_that_is_about_no_revision_is_no_span(line: Mapping[str, Any]) -> None:
    assert span_of(line, NOW) is None


def test_a_request_has_the_form_of_otlp() -> None:
    found = json.loads(request_body("job_service", [span()]))
    (of_resource,) = found["resourceSpans"]
    names = {each["key"]: each["value"] for each in of_resource["resource"]["attributes"]}
    assert names["service.name"] == {"stringValue": "penstock-job_service"}
    assert of_resource["scopeSpans"][0]["spans"] == [span()]


def test_what_no_collector_takes_is_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """1. More lines than may wait. 2. The collector does not answer: the process goes on, and ends."""
    monkeypatch.setattr(traces, "MOST_WAITING", 3)
    before = DROPPED._value.get()
    sent = Traces("http://127.0.0.1:9", "job_service", send_seconds=60.0)
    sent.start()
    for _ in range(5):
        logs.listeners[-1](LINE)
    sent.stop()
    assert DROPPED._value.get() == before + 5
    assert sent.take not in logs.listeners
