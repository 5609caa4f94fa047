"""Rows of a slow producer are not late: the watermark of a reader waits for all producers of its topic."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.local.kafka import EmbeddedKafka
from tests.support.kafka.event_topics import T0_MILLIS, topic_of, write_times
from tests.support.kafka.hops import Reader, Shuffle, Topics
from tests.support.kafka.windowed import WINDOW_MILLIS

_MINUTE = 60_000
_ALL = range(0, 40 * _MINUTE, 1_000)
_BEGUN = range(0, 10 * _MINUTE, 1_000)
_REST = range(10 * _MINUTE, 40 * _MINUTE, 1_000)


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
