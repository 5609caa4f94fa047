"""Rows of a slow producer are not late: the watermark of a reader waits for all producers of its topic.

The short form of the first test is that of the bench (`tests/integration/bench`)."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.control.process import wait_until
from penstock.local.kafka import EmbeddedKafka
from tests.support.kafka.event_topics import T0_MILLIS, topic_of, write_times
from tests.support.kafka.hops import Reader, Shuffle, Topics
from tests.support.kafka.marked import MarkedProducer
from tests.support.kafka.sink import committed
from tests.support.kafka.windowed import WINDOW_MILLIS

_MINUTE = 60_000
_ALL = range(0, 40 * _MINUTE, 1_000)
_BEGUN = range(0, 10 * _MINUTE, 1_000)
_REST = range(10 * _MINUTE, 40 * _MINUTE, 1_000)


@pytest.mark.long
def test_a_producer_ten_minutes_behind_loses_no_row(spark: SparkSession, kafka: EmbeddedKafka, tmp_path: Path):
    """1. The first task has read 40 minutes, the second one 10, and stops. 2. Both readers read that. 3. The second
    task goes on. 4. The reader that waits for producers has counted all rows; Spark's own has dropped the late ones.
    """
    topics = Topics.of(kafka.bootstrap, topic_of(kafka.bootstrap, {0: _ALL, 1: _BEGUN}))
    first, second = (Shuffle(spark, topics, tmp_path, partition) for partition in (0, 1))
    reader = Reader.of(spark, topics, tmp_path / "own")
    sparks = Reader.sparks_own(spark, topics, tmp_path / "spark")
    first.run_to_end()
    second.run_to_end()
    reader.run_to_end()
    sparks.run_to_end()
    assert set(reader.emitted.counts()) == {T0_MILLIS}, "nine minutes and fifty seconds close one window"
    write_times(kafka.bootstrap, topics.first, {1: _REST})
    second.run_to_end()
    reader.run_to_end()
    sparks.run_to_end()
    expected = Counter(T0_MILLIS + at // WINDOW_MILLIS * WINDOW_MILLIS for at in (*_ALL, *_BEGUN, *_REST))
    assert reader.rows() == sum(expected.values())
    assert all(expected[start] == rows for start, rows in reader.emitted.counts().items())
    assert len(reader.emitted.counts()) == 7
    assert sparks.rows() < 0.9 * sum(expected.values())


def test_producers_that_have_said_nothing_yet_are_waited_for(spark: SparkSession, kafka: EmbeddedKafka, tmp_path: Path):
    """1. The first mark of all is in a transaction that is open, behind it the mark of another producer, whose rows can
    be read. 2. The reader does not know either of them, and closes no window. 3. The transaction ends."""
    topics = Topics.of(kafka.bootstrap, topic_of(kafka.bootstrap, {0: []}))
    slow, quick = (MarkedProducer(kafka.bootstrap, topics.second, index) for index in range(2))
    slow.begin(map(_record_of_first, _BEGUN)).say(T0_MILLIS + _BEGUN[-1])
    quick.begin({**_record_of_first(at), "partition": 1} for at in _ALL).say(T0_MILLIS + _ALL[-1]).commit()
    reader = Reader.of(spark, topics, tmp_path / "own")
    reader.run_to_end()
    assert (reader.emitted.counts(), reader.open_rows()) == ({}, len(_ALL))
    slow.commit()
    reader.run_to_end()
    assert reader.emitted.counts() == {T0_MILLIS: 2 * WINDOW_MILLIS // 1_000}
    assert reader.rows() == len(_ALL) + len(_BEGUN)


def test_a_job_that_passes_times_on_says_so_before_its_own_producers_have_said_anything(
    spark: SparkSession, kafka: EmbeddedKafka, tmp_path: Path
):
    """1. Nobody has written yet. The job says that it has no row yet, or its readers would not wait for it. 2. Rows
    come to others only: the idle job says how far its producers are."""
    topics = Topics.of(kafka.bootstrap, topic_of(kafka.bootstrap, {0: []}))
    passed_on = Topics.of(kafka.bootstrap, topics.second)
    running = Shuffle(spark, passed_on, tmp_path, 0, timed=False, follows=topics.marks).start()
    try:
        first = wait_until(lambda: committed(kafka.bootstrap, passed_on.marks), 60, "the first mark")[0]
        assert json.loads(first.value() or b"")["t"] == 0
        for index in range(2):
            producer = MarkedProducer(kafka.bootstrap, topics.second, index)
            producer.begin([{**_record_of_first(_MINUTE), "partition": 1}]).say(T0_MILLIS + _MINUTE).commit()
        wait_until(lambda: _newest_time(kafka, passed_on) == T0_MILLIS + _MINUTE, 60, "the time of the producers")
    finally:
        running.stop()


def _newest_time(kafka: EmbeddedKafka, topics: Topics) -> int | None:
    """What the newest mark says; None before the first one. A mark without a time fails the test."""
    marks = committed(kafka.bootstrap, topics.marks)
    return int(json.loads(marks[-1].value() or b"")["t"]) if marks else None


def _record_of_first(at: int) -> dict[str, Any]:
    return {"value": json.dumps({"at": (T0_MILLIS + at) / 1_000}), "partition": 0}


@pytest.mark.long
def test_idle_producers_let_go_and_a_dead_one_is_named(spark: SparkSession, kafka: EmbeddedKafka, tmp_path: Path):
    """1. The second task has no rows and says so, so the windows of the first task's rows come out. 2. It dies, the
    first task goes on: no window more, and the reader names the dead task. 3. It runs again, still without rows: the
    windows come out. 4. All are idle: the last windows come out by the clock, without a closing record.
    """
    topics = Topics.of(kafka.bootstrap, topic_of(kafka.bootstrap, {0: _BEGUN, 1: []}))
    first, second = (Shuffle(spark, topics, tmp_path, partition) for partition in (0, 1))
    reader = Reader.of(spark, topics, tmp_path / "own", idleTimeoutMillis=3_000)
    running = {"first": first.start(), "second": second.start(), "reader": reader.start()}
    try:
        wait_until(lambda: T0_MILLIS in reader.emitted.counts(), 60, "the first window")
        running.pop("second").stop()
        write_times(kafka.bootstrap, topics.first, {0: _REST})
        wait_until(lambda: _held_back_by(running["reader"]) == "shuf/1/0", 60, "who is waited for")
        assert max(reader.emitted.counts()) < T0_MILLIS + 2 * WINDOW_MILLIS
        running["second"] = second.start()
        last = T0_MILLIS + 40 * _MINUTE - WINDOW_MILLIS
        wait_until(lambda: last in reader.emitted.counts(), 90, "the last window")
    finally:
        for query in running.values():
            query.stop()
    expected = Counter(T0_MILLIS + at // WINDOW_MILLIS * WINDOW_MILLIS for at in (*_BEGUN, *_REST))
    assert reader.emitted.counts() == dict(expected)


def _held_back_by(query: StreamingQuery) -> str | None:
    progress = query.lastProgress
    return None if progress is None else (progress.sources[0].metrics or {}).get("heldBackBy")
