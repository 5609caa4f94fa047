"""Rates by key group, from progress records."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock.spark.measure.traffic import SAMPLE_SECONDS, WINDOW_SECONDS, Samples, rates, with_record

RECORDED: dict[str, Any] = json.loads(Path(__file__).with_name("recorded_progress.json").read_text())
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def record(seconds: float, *sources: dict[str, int] | None) -> dict[str, Any]:
    """One at a time after `BEGIN`, with the newest offsets of each source's own topic."""
    stamp = (BEGIN + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    topics = [None if offsets is None else {f"t{number}": offsets} for number, offsets in enumerate(sources)]
    return {"timestamp": stamp, "sources": [{"latestOffset": offsets} for offsets in topics]}


def after(*records: dict[str, Any]) -> Samples:
    samples: Samples = ()
    for each in records:
        samples = with_record(samples, each)
    return samples


def test_what_spark_recorded() -> None:
    found = rates(after(RECORDED["stateful, first batch"], RECORDED["stateful, late row dropped"]))
    assert found is not None
    assert (found.first, found.records_per_second, found.seconds) == (0, (0.0, 0.09738, 0.09738, 0.0), 10.3)


def test_what_is_in_a_topic_that_is_taken_in_did_not_come_in_since() -> None:
    """The rates begin anew, with what comes into both."""
    before = {"2": 100, "3": 0}
    found = rates(
        after(record(0, before), record(50, before, {"2": 9000, "3": 7}), record(60, before, {"2": 9010, "3": 7}))
    )
    assert found is not None
    assert (found.records_per_second, found.seconds) == ((1.0, 0.0), 10.0)


def test_what_comes_counts_not_what_is_read() -> None:
    """A task that lags reads less than comes in."""
    found = rates(after(record(0, {"2": 100, "3": 0}), record(100, {"2": 1100, "3": 50})))
    assert found is not None
    assert (found.first, found.records_per_second) == (2, (10.0, 0.5))


def test_topics_are_summed() -> None:
    found = rates(
        after(record(0, {"0": 0, "1": 0}, {"0": 0, "1": 0}), record(10, {"0": 10, "1": 20}, {"0": 5, "1": 0}))
    )
    assert found is not None
    assert found.records_per_second == (1.5, 2.0)


@pytest.mark.parametrize(
    "records",
    [
        pytest.param([], id="no record"),
        pytest.param([record(0, {"0": 1})], id="one record"),
        pytest.param([record(0, {"0": 1}), record(0, {"0": 9})], id="no time between"),
        pytest.param([record(0, {"0": 1}, None), record(9, {"0": 1}, None)], id="one source does not tell"),
        pytest.param([record(0, {"0": 1, "2": 1}), record(9, {"0": 1, "2": 1})], id="not a range"),
        pytest.param([record(0, {"0": 1}, {"1": 1}), record(9, {"0": 1}, {"1": 1})], id="two ranges"),
        pytest.param([record(0, {"0": 9}), record(9, {"0": 1})], id="the topic was made anew"),
        pytest.param([record(9, {"0": 1}), record(0, {"0": 9})], id="the clock went back"),
        pytest.param([{}, {"timestamp": "2026-01-01T00:00:00Z"}], id="records that say nothing"),
    ],
)
def test_unknown(records: list[dict[str, Any]]) -> None:
    assert rates(after(*records)) is None


def test_the_last_ten_minutes_count_and_memory_is_bounded() -> None:
    """1. An hour at one record a second. 2. Ten minutes at five, in a record every second."""
    offset, samples = 0, ()
    for second in range(3600 + int(WINDOW_SECONDS) + 31):
        offset += 1 if second < 3600 else 5
        samples = with_record(samples, record(second, {"0": offset}))
        assert len(samples) <= WINDOW_SECONDS / SAMPLE_SECONDS + 2
    found = rates(samples)
    assert found is not None
    assert found.records_per_second == (5.0,)
    assert WINDOW_SECONDS <= found.seconds <= WINDOW_SECONDS + SAMPLE_SECONDS
