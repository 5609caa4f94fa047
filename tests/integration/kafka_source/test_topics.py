"""The source over a pattern of topics, by itself: what a batch has when topics come and change."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql import DataFrame, SparkSession

from penstock.control.process import wait_until
from penstock.local.kafka import EmbeddedKafka
from penstock.local.topics import create_topics
from tests.support.spark.session import unique

Ends = dict[str, dict[str, int]]


class Topics:
    """Topics of two partitions whose names begin alike."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap, self.base = bootstrap, unique("t")
        self.admin = AdminClient({"bootstrap.servers": bootstrap})

    def name(self, last: str) -> str:
        return f"{self.base}-{last}"

    def make(self, last: str, rows: int, *, gone: int = 0, partitions: int = 2) -> str:
        """A topic with so many rows in each partition, of which the first are gone."""
        name = self.name(last)
        create_topics(self.bootstrap, {name: partitions})
        self.add(last, rows, partitions)
        if gone:
            asked = [TopicPartition(name, number, gone) for number in range(partitions)]
            for done in self.admin.delete_records(asked).values():
                done.result(30)
        return name

    def add(self, last: str, rows: int, partitions: int = 2) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for number in range(rows * partitions):
            producer.produce(self.name(last), value=str(number), partition=number % partitions)
        assert producer.flush(30) == 0

    def grow(self, last: str, partitions: int) -> None:
        name = self.name(last)
        self.admin.create_partitions([NewPartitions(name, partitions)])[name].result(30)

    def frame(self, session: SparkSession, **options: Any) -> DataFrame:
        """A stream of the second partition of each."""
        topics = {"subscribePattern": f"{self.base}-.*", "keyGroups": "1-2/2", "newTopicsMillis": 0}
        records = session.readStream.format("penstock-kafka").option("kafka.bootstrap.servers", self.bootstrap)
        chosen = {"startingOffsets": "earliest", **topics, **options}
        return records.options(**{name: str(value) for name, value in chosen.items()}).load()


@contextmanager
def running(frame: DataFrame, checkpoint: Path) -> Iterator[list[tuple[str, int]]]:
    """The records that the query has got, by topic and offset, while it runs."""
    got: list[tuple[str, int]] = []

    def take(rows: DataFrame, _: int) -> None:
        got.extend((row.topic, row.offset) for row in rows.select("topic", "offset").collect())

    stream = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(checkpoint))
    query = stream.trigger(processingTime="100 milliseconds").start()
    try:
        yield got
        assert query.exception() is None
    finally:
        query.stop()


def ends(checkpoint: Path) -> list[Ends]:
    batches = sorted(int(path.name) for path in (checkpoint / "offsets").glob("*") if path.name.isdigit())
    return [json.loads((checkpoint / "offsets" / str(batch)).read_text().splitlines()[2]) for batch in batches]


def has_come_to(checkpoint: Path, last: Ends) -> bool:
    return ends(checkpoint)[-1:] == [last]


@pytest.mark.long
def test_a_batch_that_takes_a_topic_in_reads_nothing_of_it(
    spark: SparkSession, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    """1. A query reads one topic. 2. Another one appears, whose first 3 records are gone, and one with 4 partitions. 3.
    The batch that takes the second in notes where it begins, the next one reads it. 4. That batch is repeated, and
    those after it: nothing else comes. 5. The first topic grows, and is read on."""
    topics = Topics(kafka.bootstrap)
    first, checkpoint = topics.make("a", 5), tmp_path / "checkpoint"
    frame = topics.frame(spark)
    with running(frame, checkpoint) as got:
        wait_until(lambda: has_come_to(checkpoint, {first: {"1": 5}}), 60, "the first topic")
        second = topics.make("b", 7, gone=3)
        topics.make("odd", 2, partitions=4)
        wait_until(lambda: has_come_to(checkpoint, {first: {"1": 5}, second: {"1": 7}}), 60, "the second topic")
        wait_until(lambda: len(got) == 9, 60, "its rows")
    assert sorted(got) == [(first, offset) for offset in range(5)] + [(second, offset) for offset in range(3, 7)]
    taken = next(batch for batch in ends(checkpoint) if second in batch)
    assert taken == {first: {"1": 5}, second: {"1": 3}}
    number = ends(checkpoint).index(taken)
    for log in ("offsets", "commits"):
        for path in (checkpoint / log).iterdir():
            place = path.name.strip(".").split(".")[0]
            if place.isdigit() and int(place) >= number + (log == "offsets"):
                path.unlink()
    topics.grow("a", 3)
    topics.add("a", 2)
    with running(frame, checkpoint) as again:
        wait_until(lambda: has_come_to(checkpoint, {first: {"1": 7}, second: {"1": 7}}), 60, "all")
        wait_until(lambda: len(again) >= 6, 60, "the rows")
    assert sorted(again) == [(first, 5), (first, 6)] + [(second, offset) for offset in range(3, 7)]


@pytest.mark.long
def test_spark_s_own_source_can_take_the_query_over_and_give_it_back(
    spark: SparkSession, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    """The offsets are those of Spark's format. It reads all partitions, so of topics of one partition."""
    topics = Topics(kafka.bootstrap)
    first = topics.make("a", 5, partitions=1)
    own = {"keyGroups": "0-1/1"}
    with running(topics.frame(spark, **own), tmp_path / "c") as got:
        wait_until(lambda: len(got) == 5, 60, "the rows")
    second = topics.make("b", 4, partitions=1)
    records = spark.readStream.format("kafka").option("kafka.bootstrap.servers", kafka.bootstrap)
    sparks = records.option("subscribePattern", f"{topics.base}-.*").load()
    shutil.copytree(tmp_path / "c", tmp_path / "sparks")
    with running(sparks, tmp_path / "sparks") as got:
        wait_until(lambda: len(got) == 4, 60, "the rows")
    topics.add("a", 1, partitions=1)
    with running(topics.frame(spark, **own), tmp_path / "sparks") as back:
        wait_until(lambda: len(back) == 1, 60, "the rows")
    assert (sorted(got), back) == ([(second, offset) for offset in range(4)], [(first, 5)])
