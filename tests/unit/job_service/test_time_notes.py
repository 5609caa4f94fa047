"""What a plan notes of event time."""

from __future__ import annotations

from typing import Any

import pytest

from services.job_service.time_notes import time_notes
from tests.support.config.jobs import job

TIMED = {"value_schema": "at TIMESTAMP", "event_time_column": "at", "watermark_delay": "1 minute"}
IDLE = TIMED | {"idle_timeout_seconds": 60.0}
COUNTED = "SELECT window.start AS at, count(*) AS n FROM flights GROUP BY window(at, '1 hour')"
SESSIONS = "SELECT count(*) AS n FROM flights GROUP BY session_window(at, '1 hour')"


def shaped(sql: str, source: dict[str, Any], topic: str = "counts") -> dict[str, Any]:
    return job({"query": {"sql": sql}, "inputs": {"flights": source}, "output": {"topic": topic}})


@pytest.mark.parametrize(
    ("sql", "source", "waits"),
    [
        (COUNTED, TIMED, True),
        (SESSIONS, TIMED, True),
        (COUNTED, IDLE, False),
        (COUNTED, {}, False),
        ("SELECT at FROM flights", TIMED, False),
    ],
)
def test_last_windows_wait_without_an_idle_timeout(sql: str, source: dict[str, Any], waits: bool) -> None:
    told = time_notes(shaped(sql, source), {})
    assert ["inputs.flights.idle_timeout_seconds" in note for note in told] == [True] * waits


@pytest.mark.parametrize(
    ("sql", "column", "lies_behind"),
    [
        ("SELECT window.start AS hour, count(*) FROM flights GROUP BY window(at, '1 hour')", "hour", True),
        ("SELECT window.end AS hour, count(*) FROM flights GROUP BY window(at, '1 hour')", "hour", False),
        ("SELECT window_time(window) AS hour, count(*) FROM flights GROUP BY window(at, '1 hour')", "hour", False),
        ("SELECT session_window.end hour FROM flights GROUP BY session_window(at, '1 hour')", "hour", False),
        ("SELECT window.start AS at, count(*) FROM flights GROUP BY window(at, '1 hour')", "at", True),
        ("SELECT a.at AS hour FROM flights a JOIN flights b ON a.at > b.at", "hour", True),
        ("SELECT a.at FROM flights a JOIN flights b ON a.at > b.at", "At", False),
        ("SELECT at AS hour FROM flights", "hour", False),
    ],
)
def test_a_time_column_that_may_lie_behind_its_writer(sql: str, column: str, lies_behind: bool) -> None:
    """Only of the writer of the topic that is read."""
    reader = shaped("SELECT n FROM flights", IDLE | {"topic": "counts", "event_time_column": column})
    writers = {"writer": shaped(sql, TIMED), "other": shaped(sql, TIMED, "others")}
    told = time_notes(reader, writers)
    assert [note.split(": ")[0] for note in told] == ["inputs.flights.event_time_column"] * lies_behind
    assert all(f"writer makes {column}" in note for note in told)
