"""Streams into a topic by way of `penstock-kafka`, and what a reader of committed transactions sees of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock.control.process import wait_until
from tests.support.spark.hosts import make_topic
from tests.support.spark.session import run_to_end, unique

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
    ends = log_ends(bootstrap, topic)
    reached: dict[int, int] = {}
    messages: list[Message] = []
    with closing(_reader(bootstrap, "read_committed")) as consumer:
        consumer.assign([TopicPartition(topic, number, 0) for number in ends])

        def at_the_end() -> bool:
            for message in consumer.consume(10_000, 0.05):
                if message.error() is None:
                    messages.append(message)
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    reached[message.partition()] = message.offset()
                else:
                    raise KafkaException(message.error())
            return all(reached.get(number, -1) >= end for number, end in ends.items())

        wait_until(at_the_end, timeout_seconds, f"the end of {topic}")
    return messages


def log_ends(bootstrap: str, topic: str) -> dict[int, int]:
    """The end of each partition, open transactions included (a read_committed reader is told less)."""
    with closing(_reader(bootstrap, "read_uncommitted")) as consumer:
        numbers = consumer.list_topics(topic, timeout=10).topics[topic].partitions
        return {n: consumer.get_watermark_offsets(TopicPartition(topic, n), timeout=10)[1] for n in numbers}


def _reader(bootstrap: str, isolation: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": unique("reader"),
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
        }
    )
