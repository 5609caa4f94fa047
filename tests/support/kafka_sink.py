"""Streams into a topic by way of `penstock-kafka`, and what a reader of committed transactions sees of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Message, TopicPartition
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock.control.process import wait_until
from tests.support.session import run_to_end, unique
from tests.support.spark import make_topic

SCHEMA = "n long, word string"
VALUE = "to_json(struct(*)) AS value"


@dataclass(frozen=True)
class Pipe:
    """A query's way out: topic, series and checkpoint."""

    bootstrap: str
    topic: str
    prefix: str
    checkpoint: Path

    @classmethod
    def make(cls, bootstrap: str, folder: Path, partitions: int = 2) -> Pipe:
        return cls(bootstrap, make_topic(bootstrap, partitions), unique("series"), folder / "checkpoint")

    def stream(self, frame: DataFrame, **options: Any) -> DataStreamWriter:
        """The writer of `frame`, which has the columns of the sink."""
        own = {"kafka.bootstrap.servers": self.bootstrap, "topic": self.topic, "transactionalIdPrefix": self.prefix}
        return frame.writeStream.format("penstock-kafka").options(**own | options)

    def run(self, frame: DataFrame, **options: Any) -> None:
        """Writes all that there is. Raises the query's error."""
        run_to_end(self.stream(frame, **options), self.checkpoint)

    @contextmanager
    def running(self, frame: DataFrame, **options: Any) -> Iterator[StreamingQuery]:
        """The query with a quick trigger."""
        stream = self.stream(frame, **options).option("checkpointLocation", str(self.checkpoint))
        query = stream.trigger(processingTime="50 milliseconds").start()
        try:
            yield query
        finally:
            query.stop()

    def numbers(self) -> Counter[int]:
        """How often each row's `n` is in the topic, committed."""
        return Counter(json.loads(message.value() or b"")["n"] for message in committed(self.bootstrap, self.topic))


def committed(bootstrap: str, topic: str, timeout_seconds: float = 30.0) -> list[Message]:
    """All committed records of a topic up to its very end. An open transaction is an error: its end is not reached."""
    consumer = _reader(bootstrap)
    try:
        partitions = [
            TopicPartition(topic, p, 0) for p in consumer.list_topics(topic, timeout=10).topics[topic].partitions
        ]
        ends = {p.partition: consumer.get_watermark_offsets(p, timeout=10)[1] for p in partitions}
        consumer.assign(partitions)
        messages: list[Message] = []

        def at_the_end() -> bool:
            messages.extend(consumer.consume(10_000, 0.05))
            return all(max(p.offset, 0) >= ends[p.partition] for p in consumer.position(partitions))

        wait_until(at_the_end, timeout_seconds, f"the end of {topic}")
        assert all(message.error() is None for message in messages)
        return messages
    finally:
        consumer.close()


def _reader(bootstrap: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": unique("reader"),
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
