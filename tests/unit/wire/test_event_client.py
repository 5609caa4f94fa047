"""Server-sent events: what a client makes of the lines, and what the Job Service sends."""

from __future__ import annotations

from datetime import UTC, datetime

import orjson
import pytest

from penstock.wire.event_client import Event, parse
from penstock.wire.jobs import HistoryEntry
from services.job_service.events.reader import as_event

ENTRY = HistoryEntry(
    id=7,
    job="etl",
    layer="oncall",
    version=2,
    revision=40,
    action="patch",
    author="ann",
    reason="line one\nline two",
    at=datetime(2026, 1, 1, tzinfo=UTC),
    old=None,
    new={"task_count": 4},
    expires_at=None,
)
STREAMS = {
    "an event": ("id: 3\ndata: x\n\n", [Event(3, "x")]),
    "several lines of data": ("id: 3\ndata: x\ndata: y\n\n", [Event(3, "x\ny")]),
    "an id alone moves on": ("id: 3\n: still here\n\n", [Event(3, None)]),
    "a comment, and other fields": (": hello\nretry: 2000\n\nevent: put\nid: 4\ndata:x\n\n", [Event(4, "x")]),
    "no id": ("data: x\n\n", []),
    "an id that is none": ("id: x\ndata: y\n\n", []),
    "the end is missing": ("id: 3\ndata: x\n\nid: 4\ndata: y\n", [Event(3, "x")]),
}


@pytest.mark.parametrize(("text", "events"), STREAMS.values(), ids=STREAMS.keys())
def test_lines_to_events(text: str, events: list[Event]) -> None:
    assert list(parse(text.split("\n")[:-1])) == events


def test_what_is_sent_is_what_comes_out() -> None:
    (event,) = parse(as_event(ENTRY).decode().split("\n"))
    assert event.id == 7
    assert HistoryEntry.model_validate(orjson.loads(event.data or "")) == ENTRY
