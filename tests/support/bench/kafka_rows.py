"""Rows in Kafka that benches read and write by batch queries, and what these take."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

import psutil
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from penstock.config.model import Input, JobConfig
from penstock.kafka.access import Brokers, kafka_at
from penstock.local.topics import create_topics
from penstock.spark.inputs.malformed import MalformedRecords
from tests.support.config.jobs import job

PARTITIONS = 2
SCHEMA = "id BIGINT, dest STRING, carrier STRING, at TIMESTAMP, delay DOUBLE"
_ROWS_BETWEEN_FLUSHES = 10_000
T = TypeVar("T")


class Cost(NamedTuple):
    """What one query took; CPU is that of Spark's JVM."""

    seconds: float
    cpu_s: float


def json_value(number: int) -> str:
    """Row `number` as JSON, well formed, with the columns of `SCHEMA`."""
    row = {"id": number, "dest": "JFK", "carrier": f"C{number % 20}", "at": "2026-01-01T00:00:00Z", "delay": 1.5}
    return json.dumps(row)


def produce(brokers: Brokers, topic: str, values: Iterable[str | bytes]) -> None:
    """A new topic with these values, evenly spread."""
    create_topics(brokers, {topic: PARTITIONS})
    more = {"linger.ms": 20, "queue.buffering.max.messages": 200_000}
    producer = Producer({**kafka_at(brokers).client_settings(), **more})
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % PARTITIONS)
        if number % _ROWS_BETWEEN_FLUSHES == 0:
            producer.flush(60)
    assert producer.flush(60) == 0


def jvm_of(session: SparkSession) -> psutil.Process:
    """The process of Spark's JVM. It says its own number: pyspark knows only the script that started it."""
    jvm = session._jvm
    assert jvm is not None
    return psutil.Process(int(jvm.java.lang.ProcessHandle.current().pid()))


def records_of(session: SparkSession, topic: str, options: Mapping[str, str]) -> DataFrame:
    """All records of a topic, by Spark's own source. `options`: how Kafka is reached."""
    return session.read.format("kafka").options(**options).option("subscribe", topic).load()


def rows_of_a_job(session: SparkSession, source: Input, options: dict[str, str], brokers: Brokers = "") -> DataFrame:
    """The rows of an input as the query of a job gets them. `brokers`: for the registry of its schemas."""
    config = JobConfig.model_validate(job())
    malformed = MalformedRecords(session, "bench", config, lambda _: options, brokers)
    return malformed.rows("events", source, records_of(session, source.topic, options))


def read_to_nowhere(frame: DataFrame) -> None:
    """Computes all columns of all rows."""
    frame.write.format("noop").mode("overwrite").save()


def cost_of(query: Callable[[], None], jvm: psutil.Process) -> Cost:
    """Runs the query."""
    before, begun = sum(jvm.cpu_times()[:2]), time.perf_counter()
    query()
    return Cost(time.perf_counter() - begun, sum(jvm.cpu_times()[:2]) - before)


def costs_of(ways: Mapping[str, Callable[[], Cost]], rounds: int) -> dict[str, list[Cost]]:
    """What each way takes: once before it counts, then `alternating`."""
    for way in ways.values():
        way()
    return alternating(ways, rounds)


def alternating(ways: Mapping[str, Callable[[], T]], rounds: int) -> dict[str, list[T]]:
    """Each way once a round, so that what else the machine does meets all of them; none always comes first."""
    found: dict[str, list[T]] = {name: [] for name in ways}
    for turn in range(rounds):
        for name, way in ways.items() if turn % 2 == 0 else reversed(ways.items()):
            found[name].append(way())
    return found
