"""The watermark of an idle query goes on with the clock."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.control.process import wait_until
from penstock.local.kafka import EmbeddedKafka
from tests.support.kafka.event_topics import T0_MILLIS, topic_of, write_times
from tests.support.kafka.windowed import Emitted, counts_of, read, windowed

# The window from 0 to 300 s closes when the watermark, ten seconds behind the last row, is at 300 s.
_TIMES = {0: range(0, 309_000, 1_000), 1: range(0, 309_000, 3_000)}
_ROWS = sum(1 for column in _TIMES.values() for at in column if at < 300_000)


def test_the_last_window_comes_when_the_input_is_idle(spark: SparkSession, kafka: EmbeddedKafka, tmp_path: Path):
    topic, emitted = topic_of(kafka.bootstrap, _TIMES), Emitted()
    frame = windowed(read(spark, kafka.bootstrap, topic, idleTimeoutMillis=1500), "10 seconds")
    query = emitted.start(frame, tmp_path, "100 milliseconds")
    try:
        wait_until(lambda: _committed_watermark(tmp_path) >= T0_MILLIS + 300_000, 60, "the watermark")
        assert emitted.counts() == {T0_MILLIS: _ROWS}
    finally:
        query.stop()


@pytest.mark.long
def test_a_query_restarted_while_idle_lets_go_too_and_keeps_its_watermark(
    spark: SparkSession, kafka: EmbeddedKafka, tmp_path: Path
):
    topic, emitted = topic_of(kafka.bootstrap, _TIMES), Emitted()
    emitted.run_to_end(windowed(read(spark, kafka.bootstrap, topic), "10 seconds"), tmp_path)
    assert emitted.counts() == {}
    query = emitted.start(
        windowed(read(spark, kafka.bootstrap, topic, idleTimeoutMillis=2500), "10 seconds"),
        tmp_path,
        "100 milliseconds",
    )
    try:
        wait_until(lambda: _committed_watermark(tmp_path) >= T0_MILLIS + 300_000, 60, "the watermark")
        assert emitted.counts() == {T0_MILLIS: _ROWS}
    finally:
        query.stop()
    # Spark's own source goes on from there: the watermark stays, so a late row is late.
    reached = _committed_watermark(tmp_path)
    write_times(kafka.bootstrap, topic, {0: [1_000, 320_000]})
    emitted.run_to_end(windowed(read(spark, kafka.bootstrap, topic, "kafka"), "10 seconds"), tmp_path)
    assert _committed_watermark(tmp_path) >= reached
    assert emitted.counts() == {T0_MILLIS: _ROWS}
    assert sum(counts_of(spark, tmp_path).values()) == 9 + 3 + 1


@pytest.mark.long
def test_the_time_under_an_order_to_read_nothing_is_no_idle_time(
    spark: SparkSession, kafka: EmbeddedKafka, tmp_path: Path
):
    """1. Two inputs are read. 2. The query is to take no more rows, for longer than the time-out; rows of two batches
    come into the second input. 3. It reads again: asked first, the first input must not let go of the window that the
    rows are in. Those of the second batch would be late."""
    first, second = (topic_of(kafka.bootstrap, {0: range(0, 309_000, 1_000)}) for _ in range(2))
    limits = {"idleTimeoutMillis": 4_000, "maxOffsetsPerTrigger": 200}
    inputs = [read(spark, kafka.bootstrap, topic, **limits) for topic in (first, second)]
    query = Emitted().start(windowed(inputs[0].union(inputs[1]), "10 seconds"), tmp_path, "50 milliseconds")
    watch = spark._jvm.io.penstock.host.QueryWatch
    try:
        wait_until(lambda: _committed_watermark(tmp_path) == T0_MILLIS + 298_000, 60, "the watermark", poll_s=0.05)
        watch.quiesce(query._jsq, -1, 50)
        begun = monotonic()
        write_times(kafka.bootstrap, second, {0: [299_500] * 300})
        wait_until(lambda: monotonic() - begun > 5.0, 60, "the time-out to be over")
        watch.release(query._jsq)
        wait_until(lambda: _rows_read(query) == 2 * 309 + 300, 60, "the rows")
        assert _rows_dropped(query) == 0
    finally:
        query.stop()


def _rows_read(query: StreamingQuery) -> int:
    return sum(record.numInputRows for record in query.recentProgress)


def _rows_dropped(query: StreamingQuery) -> int:
    return sum(state.numRowsDroppedByWatermark for record in query.recentProgress for state in record.stateOperators)


@pytest.mark.long
def test_a_query_without_open_windows_runs_no_batches(
    spark: SparkSession, kafka: EmbeddedKafka, tmp_path: Path, idle_progress: None
):
    topic, emitted = topic_of(kafka.bootstrap, {0: [0, 1_000], 1: [2_000]}), Emitted()
    frame = windowed(read(spark, kafka.bootstrap, topic, idleTimeoutMillis=200_000), "0 seconds")
    query = emitted.start(frame, tmp_path, "50 milliseconds")
    try:
        write_times(kafka.bootstrap, topic, {0: [599_000]})
        wait_until(lambda: emitted.counts(), 60, "the window")
    finally:
        query.stop()
    again = windowed(read(spark, kafka.bootstrap, topic, idleTimeoutMillis=100), "0 seconds")
    query = emitted.start(again, tmp_path, "20 milliseconds")
    try:
        wait_until(lambda: len(emitted.counts()) == 2, 60, "the last window")
        wait_until(lambda: _idle_triggers(query) >= 30, 60, "idle triggers")
        quiet = query.recentProgress[-25:]
        assert {record.batchId for record in quiet} == {quiet[0].batchId}
    finally:
        query.stop()


@pytest.fixture
def idle_progress(spark: SparkSession) -> Iterator[None]:
    """Each idle trigger shows in the progress."""
    spark.conf.set("spark.sql.streaming.noDataProgressEventInterval", "1")
    yield
    spark.conf.unset("spark.sql.streaming.noDataProgressEventInterval")


def _idle_triggers(query: StreamingQuery) -> int:
    """Triggers without a batch at the end of what is known."""
    ran = [bool(record.durationMs.get("addBatch")) for record in query.recentProgress]
    return next((place for place, batch in enumerate(reversed(ran)) if batch), len(ran))


def _committed_watermark(checkpoint: Path) -> int:
    """The watermark after the last committed batch, in milliseconds since 1970; 0 before the first."""
    commits = [int(path.name) for path in (checkpoint / "commits").glob("*") if path.name.isdigit()]
    if not commits:
        return 0
    text = (checkpoint / "commits" / str(max(commits))).read_text()
    return int(json.loads(text.splitlines()[1])["nextBatchWatermarkMs"])
