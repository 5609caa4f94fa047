"""Stops, newer owners, sealed series, and what idle queries keep and give up."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.control.process import wait_until
from penstock.spark.failures import Failure, failure_of
from penstock.spark.sinks.kafka import seal_series
from tests.support.kafka.sink import VALUE, Pipe, committed, log_ends
from tests.support.spark.session import Feed

_SCOPES = pytest.mark.parametrize("scope", [pytest.param("batch", marks=pytest.mark.long), "partition"])
_PATIENCE_SECONDS = 30.0
# A row every 30 ms; Java's sleep can be interrupted, as any wait in Spark.
_SLOWLY = "concat(n, coalesce(java_method('java.lang.Thread', 'sleep', 30L), '')) AS value"


@_SCOPES
def test_a_stop_in_mid_batch_leaves_no_transaction_open(
    spark: SparkSession, feed: Feed, pipe: Pipe, scope: str
) -> None:
    """An open transaction would hold up readers of the topic for 15 minutes: here they come to the end at once."""
    feed.add([{"n": n, "word": "a"} for n in range(20, 2000)])
    with pipe.running(feed.frame(spark).selectExpr(_SLOWLY), transactionScope=scope) as query:
        wait_until(
            lambda: sum(log_ends(pipe.bootstrap, pipe.topic).values()) > 30,
            _PATIENCE_SECONDS,
            "rows of the third batch in the topic",
        )
        query.stop()
        assert query.exception() is None
    assert len(committed(pipe.bootstrap, pipe.topic, timeout_seconds=5)) == 20


@_SCOPES
def test_a_newer_owner_of_the_series_fences_the_older(
    spark: SparkSession, feed: Feed, pipe: Pipe, tmp_path: Path, scope: str
) -> None:
    newer = dataclasses.replace(pipe, checkpoint=tmp_path / "newer")
    frame = feed.frame(spark).selectExpr(VALUE)
    with pipe.running(frame, transactionScope=scope) as query:
        _await_rows(pipe, 20)
        newer.run(frame, transactionScope=scope)
        feed.add([{"n": 20, "word": "a"}])
        failure = _failure(query)
    assert failure.error_kind == "fenced"
    assert "has a newer producer" in failure.error
    assert sum(pipe.numbers().values()) == 40


@_SCOPES
def test_no_producer_of_a_sealed_series_commits(spark: SparkSession, feed: Feed, pipe: Pipe, scope: str) -> None:
    longer = f"{pipe.prefix}1"
    with pipe.running(feed.frame(spark).selectExpr(VALUE), transactionScope=scope) as query:
        _await_rows(pipe, 20)
        assert seal_series(spark, pipe.bootstrap, longer) == []
        parts = [] if scope == "batch" else [f"{pipe.prefix}#0"]
        assert seal_series(spark, pipe.bootstrap, pipe.prefix) == [pipe.prefix, *parts]
        feed.add([{"n": 20, "word": "a"}])
        assert _failure(query).error_kind == "fenced"
    assert sum(pipe.numbers().values()) == 20


@_SCOPES
def test_the_markers_of_an_idle_query_are_committed_anew_and_its_end_closes_its_producers(
    spark: SparkSession, feed: Feed, pipe: Pipe, scope: str
) -> None:
    """1. The group is deleted, as its retention would do; the idle query brings it back. 2. It goes on. 3. It ends."""
    admin = AdminClient({"bootstrap.servers": pipe.bootstrap})
    group = pipe.prefix if scope == "batch" else f"{pipe.prefix}#0"
    frame = feed.frame(spark).selectExpr(VALUE)
    with pipe.running(frame, transactionScope=scope, markerRefreshSeconds=1):
        wait_until(lambda: _marker(admin, pipe, group) == 2, _PATIENCE_SECONDS, "the marker of batch 1")
        admin.delete_consumer_groups([group])[group].result(10)
        wait_until(lambda: _marker(admin, pipe, group) == 2, _PATIENCE_SECONDS, "the marker to come back")
        feed.add([{"n": 20, "word": "a"}])
        _await_rows(pipe, 21)
        assert pipe.prefix in _producers(spark, pipe)
    wait_until(lambda: _producers(spark, pipe) == [], _PATIENCE_SECONDS, "the producers to be closed")
    assert pipe.numbers() == Counter(range(21))


@pytest.mark.long
def test_idle_producers_of_partitions_are_closed_and_opened_again(spark: SparkSession, feed: Feed, pipe: Pipe) -> None:
    frame = feed.frame(spark).selectExpr(VALUE)
    with pipe.running(frame, transactionScope="partition", producerIdleSeconds=1):
        _await_rows(pipe, 20)
        wait_until(lambda: _producers(spark, pipe) == [pipe.prefix], _PATIENCE_SECONDS, "only the driver's producer")
        feed.add([{"n": 20, "word": "a"}])
        _await_rows(pipe, 21)
    assert pipe.numbers() == Counter(range(21))


def _await_rows(pipe: Pipe, count: int) -> None:
    wait_until(lambda: sum(pipe.numbers().values()) == count, _PATIENCE_SECONDS, f"{count} rows")


def _failure(query: StreamingQuery) -> Failure:
    error = wait_until(query.exception, _PATIENCE_SECONDS, "the query to fail")
    return failure_of(error)


def _marker(admin: AdminClient, pipe: Pipe, group: str) -> int | None:
    """The committed offset of a series' group; None when it has none."""
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(pipe.topic, 0)])
    (found,) = admin.list_consumer_group_offsets([asked])[group].result(10).topic_partitions
    return found.offset if found.offset >= 0 else None


def _producers(session: SparkSession, pipe: Pipe) -> list[str]:
    """The transactional ids of the series that have an open producer in this JVM, by their threads."""
    threads = session._jvm.java.lang.Thread.getAllStackTraces().keySet()
    names = [str(thread.getName()) for thread in threads]
    own = {name.split(" | ")[1] for name in names if name.startswith(f"kafka-producer-network-thread | {pipe.prefix}")}
    return sorted(own)
