"""Small forms of the benches that need Spark and Kafka: all that they measure is reached, and figures come out.

They are long, for each costs ten to twenty CPU seconds: what they measure has tests of its own (`redistribute`,
`kafka_source`, `kafka_sink`, `spark`), and `test_usage` imports them all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from penstock.local.kafka import EmbeddedKafka
from tests.bench import (
    connectors,
    decoding,
    environments,
    formats,
    hops,
    host_day,
    hosts,
    hosts_stateful,
    loss_table,
    many_series,
    rescale,
)
from tests.bench.hosts import HostBench, bench_host, bench_on
from tests.support.bench.day import FRAGILE, KINDS
from tests.support.bench.figures import unmeasured
from tests.support.kafka.loss_table import SHAPES, Case
from tests.support.spark.hosts import running_host, settings_for
from tests.support.spark.session import CHECKPOINTS
from tests.support.spark.wheels import wheel


@pytest.fixture
def own_session(spark: SparkSession) -> SparkSession:
    """A child session with the checkpoint files that the benches use."""
    session = spark.newSession()
    session.conf.set("spark.sql.streaming.checkpointFileManagerClass", CHECKPOINTS)
    session.conf.set("spark.sql.streaming.numRecentProgressUpdates", "1000")
    return session


@pytest.fixture(scope="module")
def on_host(kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[int], HostBench]]:
    """One host for all benches of this file; gives it a topic of so many partitions."""
    folder = tmp_path_factory.mktemp("bench")
    settings = settings_for(folder, kafka.bootstrap)
    with running_host("bench", settings, folder) as host:
        yield lambda partitions: bench_on(host, kafka.bootstrap, settings, partitions)


@pytest.mark.long
def test_hosts(on_host: Callable[[int], HostBench]):
    figures = hosts.measure(on_host(3), seconds=0.3, settle_s=0.0, trigger_s=0.3, started=time.perf_counter())
    assert unmeasured(figures) == set()
    assert figures["queries"] == 3


@pytest.mark.long
def test_hosts_stateful(on_host: Callable[[int], HostBench]):
    figures = hosts_stateful.measure(on_host(2), queries=2, seconds=3.0, settle_s=0.0, trigger_s=0.3)
    assert unmeasured(figures, may_be_zero={"classes_per_batch", "jit_share"}) == set()
    assert figures["queries"] == 2


@pytest.mark.long
def test_environments(tmp_path: Path):
    wheel(tmp_path, "manners", "1.0", {"manners.py": b"WORD = 'please'\n"})
    figures = environments.measure(tmp_path, ["manners"], rounds=1, wheels=tmp_path)
    assert unmeasured(figures, may_be_zero={"build_cpu_s"}) == set()


def test_stateful_queries_differ():
    statements = list(hosts_stateful.different(100))
    assert len(set(statements)) == 100


@pytest.mark.long
def test_host_day(on_host: Callable[[int], HostBench]):
    """A job is started and changes its size, another is started and crashes."""
    kinds = [KINDS[1], FRAGILE]
    figures = host_day.measure(
        on_host(1), 0.0, samples=1, rest_s=0.1, seed=2, kinds=kinds, rounds=2, most_collections=1
    )
    assert unmeasured(figures, may_be_zero=set(figures)) == set()
    assert (figures["start"], figures["rescale"], figures["crash"]) == (2, 1, 1)


@pytest.mark.long
def test_a_day_of_a_host_in_half_an_hour():
    """Nothing grows after the first five of thirty minutes; a leak of a start would be 1 MB and more, 100 times."""
    with bench_host(1, {}) as bench:
        figures = host_day.measure(bench, 1800.0, samples=6, rest_s=70.0, seed=1)
    assert min(figures[name] for name in ("start", "stop", "rescale", "crash")) > 5
    assert figures["heap_mb_growth"] < 25
    assert figures["metaspace_mb_growth"] < 25
    assert figures["threads_growth"] <= 10
    assert figures["python_threads_growth"] <= 5
    assert figures["files_growth"] <= 20
    assert figures["cores_growth"] < 0.03


@pytest.mark.long
def test_rescale(on_host: Callable[[int], HostBench], spark: SparkSession):
    on = on_host(1)
    bench = rescale.Bench(on.settings)
    figures = bench.measure(on.host, "small", keys=200, sizes=(1, 2))
    checkpoint, own = bench.redistributed(on.host, keys=200)
    assert unmeasured(figures | own) == set()
    assert (figures["rows"], own["rows"]) == (200, 200)
    assert rescale.spark_own(spark.newSession(), checkpoint) > 0


@pytest.mark.long
def test_connectors(own_session: SparkSession, kafka: EmbeddedKafka, tmp_path: Path):
    one_of_each = connectors.Sizes(
        rows=200, large_batch=200, small_batches=2, partitions=(1,), warm_up=False, queries=2
    )
    compared = frozenset({"spark", "batch", "index"})
    sizes = replace(one_of_each, warm_s=0.0, steady_s=1.0, trigger_s=0.5, connectors=compared)
    bench = connectors.Bench(own_session, kafka.bootstrap, tmp_path)
    figures = connectors.measure(bench, sizes, rounds=1)
    assert unmeasured(figures) == set()
    assert figures.keys() == {"sink_rows_ratio", "sink_cpu_ratio", "source_rows_ratio", "hosts_cores_ratio"}


@pytest.mark.long
def test_many_series(own_session: SparkSession, kafka: EmbeddedKafka, tmp_path: Path):
    broker = psutil.Process().pid
    figures = many_series.measure(own_session, kafka.bootstrap, broker, tmp_path, series=3, batches=2)
    assert unmeasured(figures, may_be_zero={"missing", "repeated"}) == set()
    assert (figures["missing"], figures["repeated"]) == (0, 0)


@pytest.mark.long
def test_loss_table(spark: SparkSession, kafka: EmbeddedKafka, tmp_path: Path):
    """Rows of one shape that are lost with Spark's source, and are not with Penstock's."""
    figures = loss_table.measure(spark, kafka.bootstrap, tmp_path, [Case(SHAPES["daily"], 10, 2000, 12_000)])
    assert unmeasured(figures, may_be_zero={"own_rows_lost"}) == set()
    assert figures["own_rows_lost"] == 0
    assert figures["spark_rows_lost"] > 0.03 * figures["rows"]
    assert figures["own_batches"] <= 1.5 * figures["spark_batches"] + 2


@pytest.mark.long
def test_hops(spark: SparkSession, kafka: EmbeddedKafka, tmp_path: Path):
    """Rows of a task that is behind are lost with Spark's source, and are not with Penstock's."""
    figures = hops.measure(spark, kafka.bootstrap, tmp_path, rows=2_400, rounds=1, batches=3)
    assert unmeasured(figures, may_be_zero={"lost_rows"}) == set()
    assert figures["lost_rows"] == 0
    assert figures["lost_rows_spark"] > 0.1 * 2_400
    small = hops.measure_small(spark, kafka.bootstrap, tmp_path, batches=2)
    assert unmeasured(small) == set()
    assert sorted(small.values()) == list(small.values()), "a mark names each partition that its rows are in"


@pytest.mark.long
def test_decoding(own_session: SparkSession, kafka: EmbeddedKafka):
    figures = decoding.measure(own_session, kafka.bootstrap, rows=2_000, rounds=1)
    assert unmeasured(figures, may_be_zero={name for name in figures if "cpu" in name}) == set()


@pytest.mark.long
def test_formats(own_session: SparkSession, kafka: EmbeddedKafka, tmp_path: Path):
    """Each format in and out, and each way to a broker: all rows are read and written."""
    figures = formats.measure(formats.Bench(own_session, rows=600, rounds=1), kafka.bootstrap, tmp_path)
    read, written = {f"{kind}_in" for kind in formats.INPUTS}, {f"{kind}_out" for kind in formats.OUTPUTS}
    assert figures.keys() == read | written | {"csv_out", "tls", "sasl_ssl"}
    assert {name: found for name, each in figures.items() if (found := unmeasured(each))} == {}
    assert {each["rows"] for each in figures.values()} == {600}
