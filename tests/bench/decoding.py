"""What it costs to find malformed records: `python -m tests.bench.decoding [--rows 1000000] [--rounds 5]`.

A topic of JSON rows without a malformed one is read to nowhere, by batch queries that alternate, `--rounds` times:

bytes     the values as they are
decoded   `from_json` with the input's schema, as a query of Spark's own would have it
checked   as inputs of jobs are read: a mark for records of which only a part was read, and a filter that counts

Figures are medians: rows/s, and CPU seconds of Spark's JVM for a million rows. `checked_rows_ratio` is checked by
decoded, `checked_cpu_ratio` likewise.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from statistics import median
from typing import NamedTuple

import psutil
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.config.model import Input, JobConfig
from penstock.local.topics import create_topics
from penstock.spark.inputs.malformed import DECODED, MalformedRecords
from penstock.spark.settings import SparkSettings
from penstock.spark.sources import connection_options
from tests.bench.report import broker_and_session, finish, say
from tests.support.config.jobs import job
from tests.support.spark.session import unique

PARTITIONS = 2
SCHEMA = "id BIGINT, dest STRING, carrier STRING, at TIMESTAMP, delay DOUBLE"


class Cost(NamedTuple):
    """One reading of the topic."""

    seconds: float
    cpu_s: float


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with broker_and_session() as (kafka, session, _):
        figures = measure(session, kafka.bootstrap, arguments.rows, arguments.rounds)
    finish(figures)


def measure(session: SparkSession, bootstrap: str, rows: int, rounds: int) -> dict[str, float]:
    """The figures of the three ways; each is read once before it counts."""
    topic = unique("decoding")
    produce(bootstrap, topic, rows)
    ways = readers(session, bootstrap, topic)
    jvm = _jvm(session)
    costs: dict[str, list[Cost]] = {name: [] for name in ways}
    for turn in range(rounds + 1):
        for name, frame in ways.items():
            cost = _read(frame(), jvm)
            if turn:
                costs[name].append(cost)
                say(f"{name}: {rows / cost.seconds:,.0f} rows/s, {cost.cpu_s:.2f} s of CPU")
    return _figures(costs, rows)


def produce(bootstrap: str, topic: str, rows: int) -> None:
    """Rows as JSON, all well formed."""
    create_topics(bootstrap, {topic: PARTITIONS})
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 200_000})
    for number in range(rows):
        row = {"id": number, "dest": "JFK", "carrier": f"C{number % 20}", "at": "2026-01-01T00:00:00Z", "delay": 1.5}
        producer.produce(topic, json.dumps(row), partition=number % PARTITIONS)
        if number % 10_000 == 0:
            producer.flush(60)
    assert producer.flush(60) == 0


def readers(session: SparkSession, bootstrap: str, topic: str) -> dict[str, Callable[[], DataFrame]]:
    """The frames that are read, each made anew."""
    settings = SparkSettings(checkpoint_root="", kafka_bootstrap=bootstrap)
    source = Input(topic=topic, key_groups=PARTITIONS, value_schema=SCHEMA)
    config = JobConfig.model_validate(job())

    def records() -> DataFrame:
        options = connection_options(settings) | {"subscribe": topic}
        return session.read.format("kafka").options(**options).load()

    def decoded() -> DataFrame:
        return (
            records().select(F.from_json(F.col("value").cast("string"), SCHEMA).alias(DECODED)).select(f"{DECODED}.*")
        )

    def checked() -> DataFrame:
        malformed = MalformedRecords(session, "decoding", config, connection_options(settings))
        return malformed.rows("events", source, records())

    return {"bytes": lambda: records().select("value"), "decoded": decoded, "checked": checked}


def _read(frame: DataFrame, jvm: psutil.Process) -> Cost:
    before, begun = sum(jvm.cpu_times()[:2]), time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return Cost(time.perf_counter() - begun, sum(jvm.cpu_times()[:2]) - before)


def _jvm(session: SparkSession) -> psutil.Process:
    jvm = session._jvm
    assert jvm is not None
    return psutil.Process(int(jvm.java.lang.ProcessHandle.current().pid()))


def _figures(costs: dict[str, list[Cost]], rows: int) -> dict[str, float]:
    figures: dict[str, float] = {}
    for name, each in costs.items():
        figures[f"{name}_rows_per_s"] = rows / median(cost.seconds for cost in each)
        figures[f"{name}_cpu_s_per_million"] = median(cost.cpu_s for cost in each) / rows * 1e6
    figures["checked_rows_ratio"] = figures["checked_rows_per_s"] / figures["decoded_rows_per_s"]
    figures["checked_cpu_ratio"] = figures["checked_cpu_s_per_million"] / max(
        1e-9, figures["decoded_cpu_s_per_million"]
    )
    return figures


if __name__ == "__main__":
    main()
