"""What tests of the Kafka sink share: two small batches and a way out of them into Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.local.kafka import EmbeddedKafka
from tests.support.kafka.sink import SCHEMA, Pipe
from tests.support.spark.session import Feed


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    """Two batches of ten rows: `n` from 0 to 19."""
    feed = Feed(tmp_path / "feed", SCHEMA)
    for first in (0, 10):
        feed.add([{"n": n, "word": "abc"[n % 3]} for n in range(first, first + 10)])
    return feed


@pytest.fixture
def pipe(kafka: EmbeddedKafka, tmp_path: Path) -> Pipe:
    """A topic of two partitions, a series and a checkpoint of the test's own."""
    return Pipe.make(kafka.bootstrap, tmp_path)
