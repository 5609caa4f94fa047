"""Both connectors against Spark's own: `python -m tests.bench.connectors [--rows 1000000] [--rounds 3] [--queries 60]`.

One Spark session (`local[2]`) and one broker. Each measurement is taken with Spark's connector and with Penstock's,
alternating, `--rounds` times; figures are medians. CPU is that of Spark's JVM, without the broker.

sink     copies a topic of numbered rows to another, with Spark's source (for scope `partition` Penstock's, unbalanced):
         rows/s in batches of 100,000 rows, then milliseconds and CPU of batches of 100 rows, of 1 and of 8 partitions
source   reads the same topic to nowhere: the same figures; Penstock's balances by time index and by samples
hosts    `--queries` queries side by side, each from one partition to a topic with Penstock's or Spark's source and
         sink, 100 rows every two seconds: cores in use

`sink_rows_ratio`, `source_rows_ratio`: Penstock's rows/s by Spark's (aim >= 0.95). `sink_cpu_ratio`: Penstock's CPU
of a small batch by Spark's, the worse of 1 and 8 partitions (aim <= 1.2). `hosts_cores_ratio`: Penstock's cores by
Spark's.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.control.process import wait_until
from penstock.local.topics import create_topics
from tests.bench.report import broker_and_session, finish, let_pass, percentile, say
from tests.support.bench.kafka_rows import alternating, jvm_of
from tests.support.exactly_once.rows import produce_rows
from tests.support.spark.session import unique

SMALL_BATCH = 100
WARM_BATCHES = 20
PARTITIONS = 8
_SPARE_BATCHES = 40
_END_SECONDS = 600.0


@dataclass(frozen=True)
class Connector:
    """A format with its options, as source or as sink."""

    name: str
    format: str
    options: dict[str, str]


SPARK = Connector("spark", "kafka", {})
SINKS = [
    SPARK,
    Connector("batch", "penstock-kafka", {"transactionScope": "batch"}),
    Connector("partition", "penstock-kafka", {"transactionScope": "partition"}),
]
SOURCES = [SPARK, *(Connector(how, "penstock-kafka", {"balance": how}) for how in ("off", "index", "sample"))]
NOWHERE = Connector("nowhere", "noop", {})
ALL = frozenset(each.name for each in [*SINKS, *SOURCES])


@dataclass(frozen=True)
class Sizes:
    """How much is measured, of which `connectors`. `warm_s`, `steady_s`, `trigger_s`: of the queries side by side.

    `partitions`: of the topics that are read in small batches. `warm_up`: whether each pair runs once before it counts.
    """

    rows: int = 1_000_000
    large_batch: int = 100_000
    small_batches: int = 120
    partitions: tuple[int, ...] = (1, PARTITIONS)
    warm_up: bool = True
    connectors: frozenset[str] = ALL
    queries: int = 60
    warm_s: float = 15.0
    steady_s: float = 30.0
    trigger_s: float = 2.0


@dataclass(frozen=True)
class Run:
    """What a query took: seconds of wall clock and CPU in all, and the milliseconds of its later batches."""

    seconds: float
    cpu_seconds: float
    batches: int
    batch_ms: float


class Bench:
    """A session, a broker, and queries from one to the other."""

    def __init__(self, session: SparkSession, bootstrap: str, folder: Path) -> None:
        self._session = session
        self._bootstrap = bootstrap
        self._folder = folder
        self._jvm = jvm_of(session)

    def topic(self, rows: int, partitions: int) -> str:
        """A topic with numbered rows, evenly spread."""
        name = unique("rows")
        create_topics(self._bootstrap, {name: partitions})
        produce_rows(self._bootstrap, name, rows, partitions)
        return name

    def measure(self, topic: str, batch_rows: int, source: Connector, sink: Connector) -> Run:
        """Runs a query over the whole topic."""
        began, cpu = time.perf_counter(), self.cpu_seconds()
        query = self.start(topic, None, batch_rows, source, sink)
        assert query.awaitTermination(_END_SECONDS), "the query does not come to its end"
        taken, used = time.perf_counter() - began, self.cpu_seconds() - cpu
        times = [p["durationMs"]["triggerExecution"] for p in map(json.loads, _progress(query)) if p["numInputRows"]]
        return Run(taken, used, len(times), statistics.median(times[WARM_BATCHES:] or times))

    def start(
        self,
        topic: str,
        partition: int | None,
        batch_rows: int,
        source: Connector,
        sink: Connector,
        trigger_s: float = 0.0,
    ) -> StreamingQuery:
        """Starts a query: to the end of the topic, or of one partition for ever at the trigger."""
        reader = self._session.readStream.format(source.format).option("kafka.bootstrap.servers", self._bootstrap)
        reader = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", batch_rows)
        place = {"subscribe": topic} if partition is None else {"assign": json.dumps({topic: [partition]})}
        frame = reader.options(**place, **source.options).load().select("key", "value")
        writer = frame.writeStream.format(sink.format).options(**self._target(sink), **sink.options)
        writer = writer.option("checkpointLocation", str(self._folder / unique("checkpoint")))
        if partition is None:
            return writer.trigger(availableNow=True).start()
        # Not all at the same moment: Spark aligns triggers to the clock.
        return writer.trigger(processingTime=f"{1000 * trigger_s + 7 * partition:.0f} milliseconds").start()

    def cpu_seconds(self) -> float:
        """What the JVM has used so far."""
        times = self._jvm.cpu_times()
        return float(times.user + times.system)

    def _target(self, sink: Connector) -> dict[str, str]:
        if sink is NOWHERE:
            return {}
        name = unique("out")
        create_topics(self._bootstrap, {name: PARTITIONS})
        return {"kafka.bootstrap.servers": self._bootstrap, "topic": name}


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--queries", type=int, default=60)
    arguments = parser.parse_args()
    with broker_and_session() as (kafka, session, folder):
        session.conf.set("spark.sql.streaming.numRecentProgressUpdates", "1000")
        bench = Bench(session, kafka.bootstrap, folder)
        sizes = Sizes(rows=arguments.rows, queries=arguments.queries)
        figures = measure(bench, sizes, arguments.rounds)
    finish(figures)


def measure(bench: Bench, sizes: Sizes, rounds: int) -> dict[str, float]:
    """All figures; prints those of each connector."""
    large = bench.topic(sizes.rows, PARTITIONS)
    small = {count: bench.topic(SMALL_BATCH * sizes.small_batches, count) for count in sizes.partitions}
    sinks = [(_source_for(sink), sink) for sink in SINKS if sink.name in sizes.connectors]
    sources = [(source, NOWHERE) for source in SOURCES if source.name in sizes.connectors]
    for pair in sinks + sources if sizes.warm_up else ():
        bench.measure(small[sizes.partitions[0]], SMALL_BATCH, *pair)
    sink_rows = _rows_per_second(bench, "sink", large, sizes, sinks, rounds)
    source_rows = _rows_per_second(bench, "source", large, sizes, sources, rounds)
    sink_cpu = [_cpu_per_batch(bench, "sink", small[count], count, sinks, rounds) for count in small]
    for count in small:
        _cpu_per_batch(bench, "source", small[count], count, sources, rounds)
    cores = _hosts(bench, sizes, rounds)
    return {
        "sink_rows_ratio": sink_rows["batch"] / sink_rows["spark"],
        "sink_cpu_ratio": max(cpu["batch"] / cpu["spark"] for cpu in sink_cpu),
        "source_rows_ratio": source_rows["index"] / source_rows["spark"],
        "hosts_cores_ratio": cores["penstock"] / cores["spark"],
    }


def _source_for(sink: Connector) -> Connector:
    """Spark's source, but where the sink refuses it: a transaction a partition needs partitions in the same order."""
    return SOURCES[1] if sink.options.get("transactionScope") == "partition" else SPARK


def _rows_per_second(
    bench: Bench, side: str, topic: str, sizes: Sizes, pairs: list[tuple[Connector, Connector]], rounds: int
) -> dict[str, float]:
    figures = {}
    for name, runs in _alternating(bench, topic, sizes.large_batch, side, pairs, rounds).items():
        figures[name] = statistics.median(sizes.rows / run.seconds for run in runs)
        cpu = statistics.median(run.cpu_seconds for run in runs)
        say(f"{side}: {name}: {figures[name]:,.0f} rows/s, {cpu:.1f} s CPU for {sizes.rows:,} rows")
    return figures


def _cpu_per_batch(
    bench: Bench, side: str, topic: str, partitions: int, pairs: list[tuple[Connector, Connector]], rounds: int
) -> dict[str, float]:
    """CPU milliseconds of a small batch, the query's start included."""
    figures = {}
    for name, runs in _alternating(bench, topic, SMALL_BATCH, side, pairs, rounds).items():
        figures[name] = statistics.median(1000 * run.cpu_seconds / run.batches for run in runs)
        batch_ms = statistics.median(run.batch_ms for run in runs)
        what = f"{side}: {name}: {SMALL_BATCH} rows of {partitions} partitions"
        say(f"{what}: {batch_ms:.0f} ms, {figures[name]:.0f} CPU ms")
    return figures


def _alternating(
    bench: Bench, topic: str, batch_rows: int, side: str, pairs: list[tuple[Connector, Connector]], rounds: int
) -> dict[str, list[Run]]:
    """The runs of every pair, by the name of what differs."""
    names = [sink.name if side == "sink" else source.name for source, sink in pairs]
    ways = {name: partial(bench.measure, topic, batch_rows, *pair) for name, pair in zip(names, pairs, strict=True)}
    return alternating(ways, rounds)


def _hosts(bench: Bench, sizes: Sizes, rounds: int) -> dict[str, float]:
    queries = sizes.queries
    # More than they read: it is the rate of batches that matters.
    batches = 2 * (sizes.warm_s + sizes.steady_s) / sizes.trigger_s + _SPARE_BATCHES
    topic = bench.topic(int(queries * SMALL_BATCH * batches), queries)
    both = {"spark": (SPARK, SPARK), "penstock": (SOURCES[2], SINKS[1])}
    figures: dict[str, list[float]] = {name: [] for name in both}
    for _ in range(rounds):
        for name, pair in both.items():
            starts = partial(bench.start, topic, source=pair[0], sink=pair[1], trigger_s=sizes.trigger_s)
            started = [starts(partition, SMALL_BATCH) for partition in range(queries)]
            figures[name].append(_cores(bench, f"{queries} queries: {name}", started, sizes))
    return {name: statistics.median(values) for name, values in figures.items()}


def _cores(bench: Bench, what: str, queries: list[StreamingQuery], sizes: Sizes) -> float:
    wait_until(lambda: all(query.lastProgress for query in queries), _END_SECONDS, "all queries to make progress")
    let_pass(sizes.warm_s)
    began, cpu, batches = time.perf_counter(), bench.cpu_seconds(), _batches(queries)
    let_pass(sizes.steady_s)
    wait_until(lambda: _batches(queries) > batches, _END_SECONDS, "a batch to end")
    used, passed, done = bench.cpu_seconds() - cpu, time.perf_counter() - began, _batches(queries) - batches
    times = [p["durationMs"]["triggerExecution"] for query in queries for p in map(json.loads, _progress(query))]
    for query in queries:
        query.stop()
    say(
        f"{what}: {used / passed:.2f} cores, {1000 * used / done:.0f} CPU ms a batch, "
        f"batch p50 {percentile(times, 0.5):.0f} ms, p99 {percentile(times, 0.99):.0f} ms"
    )
    return used / passed


def _batches(queries: Iterable[StreamingQuery]) -> int:
    return sum(query.lastProgress["batchId"] + 1 for query in queries if query.lastProgress)


def _progress(query: StreamingQuery) -> list[str]:
    """The newest progress reports as JSON, without Python objects for each of their fields."""
    reports: Any = query._jsq.recentProgress()
    return [report.json() for report in reports]


if __name__ == "__main__":
    main()
