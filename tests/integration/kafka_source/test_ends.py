"""Where batches end: at given offsets, at a leader's boundaries, at a limit of bytes, over two topics."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.control.process import wait_until
from penstock.local.kafka import EmbeddedKafka
from tests.support.kafka.event_topics import T0_MILLIS, topic_of
from tests.support.kafka.windowed import read

_TIMES = {0: range(0, 600_000, 1_000), 1: range(0, 600_000, 2_000)}


@pytest.fixture(scope="module")
def topic(kafka: EmbeddedKafka) -> str:
    return topic_of(kafka.bootstrap, _TIMES, padding=1000)


def test_a_bounded_query_reads_exactly_to_its_ends_and_idles(
    spark: SparkSession, kafka: EmbeddedKafka, topic: str, tmp_path: Path
):
    ends = {topic: {"0": 333, "1": 77}}
    frame = read(spark, kafka.bootstrap, topic, stopAtOffsets=json.dumps(ends), maxOffsetsPerTrigger=250)
    query = _started(frame, tmp_path, processingTime="0 seconds")
    try:
        wait_until(lambda: _ends(tmp_path)[-1:] == [ends], 60, "the ends")
        query.processAllAvailable()
        assert sum(batch["numInputRows"] for batch in _progress(query)) == 410
    finally:
        query.stop()
    again = _started(frame, tmp_path, processingTime="0 seconds")
    try:
        again.processAllAvailable()
        assert _ends(tmp_path)[-1] == ends
    finally:
        again.stop()


def test_a_query_that_is_about_to_stop_gets_no_more_rows(
    spark: SparkSession, kafka: EmbeddedKafka, topic: str, tmp_path: Path
):
    orders = spark._jvm.io.penstock.spark42.QuiesceOrders
    query = _started(read(spark, kafka.bootstrap, topic, maxOffsetsPerTrigger=2), tmp_path, processingTime="0 seconds")
    try:
        wait_until(partial(_has_planned, tmp_path, 3), 60, "some batches")
        orders.stop(query._jsq.runId())
        query.processAllAvailable()
        assert _names(tmp_path / "commits") == _names(tmp_path / "offsets")
        assert sum(_ends(tmp_path)[-1][topic].values()) < 900
        orders.release(query._jsq.runId())
        wait_until(partial(_has_planned, tmp_path, len(_names(tmp_path / "offsets")) + 3), 60, "more batches")
    finally:
        query.stop()


def test_a_busy_query_is_stopped_at_the_end_of_its_batch(
    spark: SparkSession, kafka: EmbeddedKafka, topic: str, tmp_path: Path
):
    """Its batches follow each other without a pause, so nobody can hit the moment between two of them."""
    frame = read(spark, kafka.bootstrap, topic, maxOffsetsPerTrigger=2)
    for batches in (3, 6, 9):
        query = _started(frame, tmp_path, processingTime="0 seconds")
        wait_until(partial(_has_planned, tmp_path, batches), 60, "some batches")
        spark._jvm.io.penstock.host.QueryWatch.stop(query._jsq, 60_000)
        assert _names(tmp_path / "commits") == _names(tmp_path / "offsets")
    assert sum(_ends(tmp_path)[-1][topic].values()) < 900


@pytest.mark.parametrize(
    ("ends", "words"),
    [
        ({"0": 100}, "stopAtOffsets: must name every partition"),
        ({"0": 100, "1": 20}, "beyond 20"),
    ],
)
def test_ends_that_cannot_be_kept_are_refused(
    spark: SparkSession, kafka: EmbeddedKafka, topic: str, tmp_path: Path, ends: dict[str, int], words: str
):
    starts = json.dumps({topic: {"0": 50, "1": 50}})
    frame = read(spark, kafka.bootstrap, topic, startingOffsets=starts, stopAtOffsets=json.dumps({topic: ends}))
    with pytest.raises(StreamingQueryException, match=words):
        _run(frame, tmp_path)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"balance": "best"}, "option balance: must be one of auto, index, field, sample, off, not 'best'"),
        ({"balance": "field"}, "option balanceField: is required"),
        ({"maxBytesPerTrigger": 0}, "option maxBytesPerTrigger: must be a whole number from 1 on, not '0'"),
        ({"followOffsetLog": "/x", "maxOffsetsPerTrigger": 5}, "option maxOffsetsPerTrigger: does not go with"),
    ],
)
def test_bad_options_are_refused_by_name(
    spark: SparkSession, kafka: EmbeddedKafka, topic: str, tmp_path: Path, options: dict[str, Any], words: str
):
    with pytest.raises(Exception, match=words):
        _run(read(spark, kafka.bootstrap, topic, **options), tmp_path)
    assert not (tmp_path / "offsets" / "0").exists()


def test_bytes_limit_a_batch(spark: SparkSession, kafka: EmbeddedKafka, topic: str, tmp_path: Path):
    query = _run(read(spark, kafka.bootstrap, topic, maxBytesPerTrigger=310_000), tmp_path)
    rows = [batch["numInputRows"] for batch in _progress(query)]
    assert sum(rows) == 900
    assert 200 <= max(rows) <= 310, rows


def test_a_follower_makes_its_leaders_batches(spark: SparkSession, kafka: EmbeddedKafka, topic: str, tmp_path: Path):
    leader, late, whole = tmp_path / "leader", tmp_path / "late", tmp_path / "whole"
    _run(read(spark, kafka.bootstrap, topic, maxOffsetsPerTrigger=300), leader)
    boundaries = _ends(leader)
    assert len(boundaries) >= 3
    follow = {"followOffsetLog": str(leader / "offsets")}
    _run(read(spark, kafka.bootstrap, topic, **follow), whole)
    assert _ends(whole) == boundaries
    between = {topic: {name: offset + 3 for name, offset in boundaries[0][topic].items()}}
    _run(read(spark, kafka.bootstrap, topic, startingOffsets=json.dumps(between), **follow), late)
    assert _ends(late) == boundaries[1:]
    for batch in (0, 1):
        (leader / "offsets" / str(batch)).unlink()
    with pytest.raises(StreamingQueryException, match="batches in between were purged"):
        _run(read(spark, kafka.bootstrap, topic, **follow), tmp_path / "too-late")


def test_a_follower_waits_for_its_leader(spark: SparkSession, kafka: EmbeddedKafka, topic: str, tmp_path: Path):
    leader, copy = tmp_path / "leader", tmp_path / "copy"
    _run(read(spark, kafka.bootstrap, topic, maxOffsetsPerTrigger=300), leader)
    copy.mkdir()
    shutil.copy(leader / "offsets" / "0", copy / "0")
    query = _started(
        read(spark, kafka.bootstrap, topic, followOffsetLog=str(copy)), tmp_path / "own", processingTime="0 seconds"
    )
    try:
        query.processAllAvailable()
        assert _ends(tmp_path / "own") == _ends(leader)[:1]
        shutil.copy(leader / "offsets" / "1", copy / "1")
        wait_until(lambda: _ends(tmp_path / "own") == _ends(leader)[:2], 60, "the leader's second batch")
    finally:
        query.stop()


def test_two_topics_are_cut_at_the_same_time(spark: SparkSession, kafka: EmbeddedKafka, tmp_path: Path):
    flights = topic_of(kafka.bootstrap, {0: range(0, 3_600_000, 2_000), 1: range(0, 3_600_000, 9_000)})
    delays = topic_of(kafka.bootstrap, {0: range(0, 3_600_000, 30_000), 1: range(1_800_000, 3_600_000, 3_000)})
    both = json.dumps({flights: [0, 1], delays: [0, 1]})
    reader = spark.readStream.format("penstock-kafka").option("kafka.bootstrap.servers", kafka.bootstrap)
    frame = reader.options(assign=both, startingOffsets="earliest", maxOffsetsPerTrigger="800").load()
    query = _run(frame, tmp_path)
    ends = [json.loads(text) for text in _offset_lines(tmp_path)]
    horizons = [int(batch["sources"][0]["metrics"].get("eventTimeHorizonMillis", 0)) for batch in _progress(query)]
    assert horizons[0] > T0_MILLIS
    half = (horizons[0] - T0_MILLIS) / 1000
    assert ends[0][flights]["0"] == pytest.approx(half / 2, abs=1)
    assert ends[0][flights]["1"] == pytest.approx(half / 9, abs=1)
    assert ends[0][delays]["0"] == pytest.approx(half / 30, abs=1)
    assert ends[0][delays]["1"] == 0 or half > 1800
    assert ends[-1] == {flights: {"0": 1800, "1": 400}, delays: {"0": 120, "1": 600}}


def test_two_sources_of_a_query_keep_pace(spark: SparkSession, kafka: EmbeddedKafka, tmp_path: Path):
    many = topic_of(kafka.bootstrap, {0: range(0, 3_600_000, 3_000), 1: range(0, 3_600_000, 3_000)})
    few = topic_of(kafka.bootstrap, {0: range(0, 3_600_000, 12_000), 1: range(0, 3_600_000, 12_000)})
    frames = [read(spark, kafka.bootstrap, topic, maxOffsetsPerTrigger=200) for topic in (many, few)]
    query = _run(frames[0].union(frames[1]), tmp_path)
    progress = _progress(query)
    assert sum(batch["numInputRows"] for batch in progress) == 2400 + 600
    horizons = [
        [int(source["metrics"].get("eventTimeHorizonMillis", 0)) for source in batch["sources"]] for batch in progress
    ]
    limited = [pair for pair in horizons if all(pair)]
    # A batch holds 5 minutes of the one and 20 of the other topic: without the pace they would be an hour apart.
    assert len(limited) >= 2
    assert max(abs(first - second) for first, second in limited) <= 1_200_000


def _started(frame: DataFrame, checkpoint: Path, **trigger: Any) -> StreamingQuery:
    stream = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    return stream.trigger(**trigger).start()


def _run(frame: DataFrame, checkpoint: Path) -> StreamingQuery:
    query = _started(frame, checkpoint, availableNow=True)
    try:
        assert query.awaitTermination(120)
    finally:
        query.stop()
    return query


def _progress(query: StreamingQuery) -> list[dict[str, Any]]:
    return [json.loads(record.json) for record in query.recentProgress]


def _offset_lines(checkpoint: Path) -> list[str]:
    batches = _names(checkpoint / "offsets")
    return [(checkpoint / "offsets" / str(batch)).read_text().splitlines()[2] for batch in batches]


def _has_planned(checkpoint: Path, batches: int) -> bool:
    return len(_names(checkpoint / "offsets")) > batches


def _names(log: Path) -> list[int]:
    return sorted(int(path.name) for path in log.glob("*") if path.name.isdigit())


def _ends(checkpoint: Path) -> list[dict[str, dict[str, int]]]:
    return [json.loads(line) for line in _offset_lines(checkpoint)]
