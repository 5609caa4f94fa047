"""Two hops over Kafka: producers that shuffle a topic into another one, and a windowed count that reads that one."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock.control.process import wait_until
from tests.support.kafka.windowed import Emitted, counts_of, windowed
from tests.support.spark.hosts import make_topic

DELAY = "10 seconds"
DELAY_MILLIS = 10_000
_TIMEOUT_S = 120


@dataclass(frozen=True)
class Topics:
    """`first` is read by the producers, a partition each; they write to `second`, which has so many partitions, and
    whose marks are in `marks`."""

    bootstrap: str
    first: str
    second: str
    marks: str
    partitions: int = 2

    @classmethod
    def of(cls, bootstrap: str, first: str, partitions: int = 2) -> Topics:
        second = make_topic(bootstrap, partitions)
        marks = f"{second}.penstock-marks"
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(marks, 1, 1)])[marks].result(15)
        # The broker says that a topic is made before all that ask it know of many partitions.
        wait_until(lambda: len(admin.list_topics(second, 10).topics[second].partitions) == partitions, 30, second)
        return cls(bootstrap, first, second, marks, partitions)


@dataclass(frozen=True)
class Shuffle:
    """One of `count` producers: reads one partition of the first topic and spreads its rows over the second. Without
    `timed` it declares no event time. `follows`: the topic with the marks of those that write to the first topic."""

    session: SparkSession
    topics: Topics
    folder: Path
    partition: int
    count: int = 2
    group: str = "shuf"
    generation: int = 0
    marked: bool = True
    timed: bool = True
    follows: str | None = None
    limit: int | None = None
    name: str = ""

    def run_to_end(self) -> float:
        """The seconds that its batches took."""
        query = self._stream().trigger(availableNow=True).start()
        assert query.awaitTermination(_TIMEOUT_S), "the producer did not come to its end in time"
        return sum(batch.durationMs["triggerExecution"] for batch in query.recentProgress) / 1000

    def start(self, interval: str = "100 milliseconds") -> StreamingQuery:
        return self._stream().trigger(processingTime=interval).start()

    def _stream(self) -> DataStreamWriter:
        limit: dict[str, Any] = {} if self.limit is None else {"maxOffsetsPerTrigger": self.limit}
        limit |= {} if self.follows is None else {"producerMarks": self.follows}
        place = {self.topics.first: [self.partition]}
        records = source(self.session, self.topics.bootstrap, place, announce=True, **limit)
        frame = event_times(records) if self.timed else times(records)
        target = (F.col("at").cast("long") % self.topics.partitions).cast("int").alias("partition")
        value = F.to_json(F.struct(F.col("at").cast("double").alias("at"), F.lit("x" * 100).alias("pad")))
        rows = frame.select(value.alias("value"), target)
        stream = rows.writeStream.format("penstock-kafka").option("kafka.bootstrap.servers", self.topics.bootstrap)
        stream = stream.option("topic", self.topics.second).option("transactionalIdPrefix", self._prefix())
        if self.marked:
            stream = stream.options(
                marksTopic=self.topics.marks,
                marksGroup=self.group,
                marksGeneration=str(self.generation),
                marksMember=f"{self.partition}/{self.count}",
                marksEverySeconds="1",
            )
        return stream.option("checkpointLocation", str(self.folder / self._prefix()))

    def _prefix(self) -> str:
        return f"{self.topics.second}-{self.group}-{self.partition}-{self.generation}{self.name}"


@dataclass(frozen=True)
class Reader:
    """Counts the rows of the second topic in windows of five minutes."""

    session: SparkSession
    topics: Topics
    checkpoint: Path
    emitted: Emitted
    options: dict[str, Any]

    @classmethod
    def of(cls, session: SparkSession, topics: Topics, checkpoint: Path, **options: Any) -> Reader:
        followed = {"producerMarks": topics.marks, "watermarkDelayMillis": DELAY_MILLIS}
        return cls(session, topics, checkpoint, Emitted(), followed | options)

    @classmethod
    def sparks_own(cls, session: SparkSession, topics: Topics, checkpoint: Path) -> Reader:
        return cls(session, topics, checkpoint, Emitted(), {"format": "kafka"})

    def run_to_end(self) -> None:
        self.emitted.run_to_end(self._frame(), self.checkpoint)

    def start(self, interval: str = "100 milliseconds") -> StreamingQuery:
        return self.emitted.start(self._frame(), self.checkpoint, interval)

    def with_options(self, **options: Any) -> Reader:
        return replace(self, options=self.options | options)

    def rows(self) -> int:
        """The rows that were counted, in windows that have come out or are still open."""
        return sum(self.emitted.counts().values()) + self.open_rows()

    def open_rows(self) -> int:
        """The rows that were counted in windows that are still open."""
        return sum(counts_of(self.session, self.checkpoint).values())

    def _frame(self) -> DataFrame:
        options = dict(self.options)
        form = options.pop("format", "penstock-kafka")
        partitions = {self.topics.second: [0, 1]}
        return windowed(source(self.session, self.topics.bootstrap, partitions, form, **options), DELAY)


def source(
    session: SparkSession,
    bootstrap: str,
    partitions: dict[str, list[int]],
    form: str = "penstock-kafka",
    **options: Any,
) -> DataFrame:
    """A stream of these partitions from their beginning, as a task reads them."""
    chosen = {
        "kafka.bootstrap.servers": bootstrap,
        "assign": json.dumps(partitions),
        "startingOffsets": "earliest",
        "kafka.isolation.level": "read_committed",
        "kafka.fetch.max.wait.ms": "10",
        **options,
    }
    return session.readStream.format(form).options(**{name: str(value) for name, value in chosen.items()}).load()


def times(records: DataFrame) -> DataFrame:
    """The event time of each record, without a watermark."""
    at = F.timestamp_seconds(F.get_json_object(F.col("value").cast("string"), "$.at").cast("double")).alias("at")
    return records.select(at)


def event_times(records: DataFrame, delay: str = DELAY) -> DataFrame:
    """The event time of each record, with a watermark."""
    return times(records).withWatermark("at", delay)
