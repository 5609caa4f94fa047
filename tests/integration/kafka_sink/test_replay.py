"""A batch that is repeated: what is in Kafka once stays there once, and what cannot be told apart is an error."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from penstock.local.kafka import EmbeddedKafka
from tests.support.kafka_sink import SCHEMA, VALUE, Pipe
from tests.support.session import Feed, forget_last_commit

_SCOPES = pytest.mark.parametrize("scope", ["batch", "partition"])
_ONCE = Counter({n: 1 for n in range(20)})


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    """Two batches of ten rows."""
    feed = Feed(tmp_path / "feed", SCHEMA)
    for first in (0, 10):
        feed.add([{"n": n, "word": "abc"[n % 3]} for n in range(first, first + 10)])
    return feed


@pytest.fixture
def pipe(kafka: EmbeddedKafka, tmp_path: Path) -> Pipe:
    return Pipe.make(kafka.bootstrap, tmp_path)


@_SCOPES
def test_a_repeated_batch_writes_nothing_and_the_next_one_goes_on(
    spark: SparkSession, feed: Feed, pipe: Pipe, scope: str
) -> None:
    frame = feed.frame(spark).selectExpr("word AS key", VALUE).repartition(3, "key")
    pipe.run(frame, transactionScope=scope)
    assert forget_last_commit(pipe.checkpoint) == 1
    pipe.run(frame, transactionScope=scope)
    assert pipe.numbers() == _ONCE
    feed.add([{"n": 20, "word": "a"}])
    pipe.run(frame, transactionScope=scope)
    assert pipe.numbers() == _ONCE + Counter([20])
