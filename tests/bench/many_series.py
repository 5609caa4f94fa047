"""Hundreds of exactly-once series on one broker: `python -m tests.bench.many_series [--series 300] [--batches 5]`.

One Spark session (`local[2]`), where each series is a query that copies its partition of a topic of numbered rows to
one common topic, 100 rows a batch: so each has a transactional producer and markers of its own. All write at once.

Figures: `start_s` until every series has its first commit, `batch_p50_ms`, `batch_p99_ms` of the later batches (rows
and commit in Kafka, Spark's `addBatch`), resident memory of the broker before and after, and of Spark's JVM;
`missing` and `repeated` rows must be 0.
"""

from __future__ import annotations

import argparse
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.control.process import wait_until
from penstock.local.topics import create_topics
from tests.bench.report import broker_and_session, finish, percentile, say
from tests.support.bench.kafka_rows import jvm_of
from tests.support.exactly_once.rows import judge, produce_rows

ROWS_PER_BATCH = 100
SOURCE, TARGET = "numbers", "copies"
_WAIT_SECONDS = 900.0
_MEGABYTE = 1e6


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, default=300)
    parser.add_argument("--batches", type=int, default=5)
    arguments = parser.parse_args()
    with broker_and_session() as (kafka, session, folder):
        broker = int((folder / "kafka" / "kafka.pid").read_text())
        figures = measure(session, kafka.bootstrap, broker, folder, arguments.series, arguments.batches)
    finish(figures)


def measure(
    session: SparkSession, bootstrap: str, broker_pid: int, folder: Path, series: int, batches: int
) -> dict[str, float]:
    """Runs `series` queries until each has written `batches` batches. Raises TimeoutError when they do not."""
    rows = series * batches * ROWS_PER_BATCH
    create_topics(bootstrap, {SOURCE: series, TARGET: 8})
    produce_rows(bootstrap, SOURCE, rows, series)
    broker, jvm = psutil.Process(broker_pid), jvm_of(session)
    before, began = broker.memory_info().rss, time.perf_counter()
    with ThreadPoolExecutor(4) as threads:
        queries = list(threads.map(lambda index: _start(session, bootstrap, folder, index), range(series)))
    say(f"{series} queries started in {time.perf_counter() - began:.1f} s")
    wait_until(lambda: all(query.lastProgress for query in queries), _WAIT_SECONDS, "the first batch of every series")
    start = time.perf_counter() - began
    wait_until(lambda: all(_batches(query) >= batches for query in queries), _WAIT_SECONDS, "all rows to be written")
    times = sorted(time for query in queries for time in _write_times(query))
    memory = {"broker_before_mb": before, "broker_mb": broker.memory_info().rss, "spark_mb": jvm.memory_info().rss}
    for query in queries:
        query.stop()
    verdict = judge(bootstrap, TARGET, rows)
    return {
        "series": series,
        "start_s": start,
        "batch_p50_ms": percentile(times, 0.5),
        "batch_p99_ms": percentile(times, 0.99),
        **{name: size / _MEGABYTE for name, size in memory.items()},
        "missing": verdict.missing,
        "repeated": verdict.repeated,
    }


def _start(session: SparkSession, bootstrap: str, folder: Path, index: int) -> StreamingQuery:
    reader = session.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    reader = reader.option("assign", json.dumps({SOURCE: [index]})).option("startingOffsets", "earliest")
    writer = reader.option("maxOffsetsPerTrigger", ROWS_PER_BATCH).load().select("key", "value").writeStream
    writer = writer.format("penstock-kafka").option("kafka.bootstrap.servers", bootstrap).option("topic", TARGET)
    writer = writer.option("transactionalIdPrefix", f"bench/{index}/1")
    writer = writer.option("checkpointLocation", str(folder / "checkpoints" / str(index)))
    return writer.trigger(processingTime=f"{10_000 + 7 * index} milliseconds").start()


def _batches(query: StreamingQuery) -> int:
    progress = query.lastProgress
    assert query.exception() is None, query.exception()
    return int(progress["batchId"]) + (progress["numInputRows"] > 0)


def _write_times(query: StreamingQuery) -> list[int]:
    """Milliseconds of the batches but the first, which opened the producer."""
    reports = [json.loads(report.json()) for report in query._jsq.recentProgress()]
    return [report["durationMs"]["addBatch"] for report in reports if report["batchId"] > 0 and report["numInputRows"]]


if __name__ == "__main__":
    main()
