"""What rows become in Kafka, and what is refused before anything is written."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from penstock.local.kafka import EmbeddedKafka
from penstock.spark.failures import failure_of
from tests.support.kafka.sink import VALUE, Pipe, committed
from tests.support.spark.hosts import make_topic, produce
from tests.support.spark.session import Feed, run_to_end

_HEADERS = (
    "array(struct('word' AS key, CAST(word AS BINARY) AS value), struct('none' AS key, CAST(NULL AS BINARY) AS value))"
)
_SCOPES = pytest.mark.parametrize("scope", ["batch", "partition"])


@_SCOPES
def test_keys_values_headers_and_partitions(spark: SparkSession, feed: Feed, pipe: Pipe, scope: str) -> None:
    frame = feed.frame(spark).selectExpr(
        "IF(n = 3, NULL, CAST(word AS BINARY)) AS key",
        "IF(n = 4, NULL, CAST(n AS STRING)) AS value",
        f"IF(n = 5, NULL, {_HEADERS}) AS headers",
        "CAST(n % 2 AS INT) AS partition",
        "n AS other",
    )
    pipe.run(frame, transactionScope=scope)
    messages = committed(pipe.bootstrap, pipe.topic)
    found = {(message.partition(), message.key(), message.value()) for message in messages}
    assert len(messages) == 20
    assert found == {
        (n % 2, None if n == 3 else b"abc"[n % 3 : n % 3 + 1], None if n == 4 else str(n).encode()) for n in range(20)
    }
    headers = {message.value(): message.headers() for message in messages}
    assert headers[b"7"] == [("word", b"b"), ("none", None)]
    assert headers[b"5"] is None


def test_update_mode_appends_every_new_result(spark: SparkSession, feed: Feed, pipe: Pipe) -> None:
    counts = feed.frame(spark).groupBy("word").count().selectExpr("word AS key", "CAST(count AS STRING) AS value")
    run_to_end(pipe.stream(counts).outputMode("update"), pipe.checkpoint)
    found = Counter((message.key(), message.value()) for message in committed(pipe.bootstrap, pipe.topic))
    first = {(b"a", b"4"): 1, (b"b", b"3"): 1, (b"c", b"3"): 1}
    assert found == Counter(first) + Counter({(b"a", b"7"): 1, (b"b", b"7"): 1, (b"c", b"6"): 1})


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("n AS value", "column value: must be string or binary, not bigint"),
        ("word AS value, 2 AS partition", "column partition: is 2, but the topic .* has the partitions 0 to 1"),
    ],
)
def test_columns_that_do_not_fit_are_named(
    spark: SparkSession, feed: Feed, pipe: Pipe, column: str, message: str
) -> None:
    with pytest.raises(StreamingQueryException, match=message) as caught:
        pipe.run(feed.frame(spark).selectExpr(*column.split(", ")))
    assert failure_of(caught.value).error_kind == "broken_task"
    assert committed(pipe.bootstrap, pipe.topic) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topic": "is-not-there"}, "option topic: the topic is-not-there does not exist; make it first"),
        ({"kafka.transaction.timeout.ms": 3_600_000}, "option kafka.transaction.timeout.ms: is larger than"),
    ],
)
def test_options_that_do_not_fit_are_named_at_once(
    spark: SparkSession, feed: Feed, pipe: Pipe, options: dict[str, Any], message: str
) -> None:
    began = time.monotonic()
    with pytest.raises(StreamingQueryException, match=message) as caught:
        pipe.run(feed.frame(spark).selectExpr(VALUE), **options)
    assert time.monotonic() - began < 15
    assert failure_of(caught.value).error_kind == "broken_task"


def test_a_transaction_a_partition_is_refused_behind_a_source_that_does_not_repeat_its_partitions(
    spark: SparkSession, kafka: EmbeddedKafka, pipe: Pipe
) -> None:
    """1. Behind Spark's own source it is refused. 2. The same checkpoint goes on with ours."""
    topic = make_topic(kafka.bootstrap, 2)
    produce(kafka.bootstrap, topic, [{"n": n} for n in range(6)], 2)
    reader = spark.readStream.option("kafka.bootstrap.servers", kafka.bootstrap).option("subscribe", topic)
    reader = reader.option("startingOffsets", "earliest")
    with pytest.raises(StreamingQueryException) as caught:
        pipe.run(reader.format("kafka").load().select("value"), transactionScope="partition")
    assert failure_of(caught.value).error_kind == "broken_task"
    assert "read with format penstock-kafka" in failure_of(caught.value).error
    pipe.run(reader.format("penstock-kafka").load().select("value"), transactionScope="partition")
    assert pipe.numbers() == Counter(range(6))
