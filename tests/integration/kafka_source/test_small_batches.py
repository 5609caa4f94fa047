"""A batch of few rows: one Spark task reads several partitions, and its Kafka consumers were there before."""

from __future__ import annotations

from collections.abc import Set
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.local.kafka import EmbeddedKafka
from penstock.spark.consumers import Consumers
from penstock.spark.topics import Topic
from tests.support.kafka.event_topics import topic_of, write_times
from tests.support.kafka.windowed import read
from tests.support.spark.session import unique

_PARTITIONS = 8
_TIMES = {partition: range(partition * 1_000, (partition + 5) * 1_000, 1_000) for partition in range(_PARTITIONS)}


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """As of a task of one thread."""
    own = spark.newSession()
    own.conf.set("spark.sql.shuffle.partitions", "1")
    return own


def _run(frame: DataFrame, checkpoint: Path) -> list[Any]:
    """The rows of all that there is, each with the Spark task that read it."""
    name = unique("rows").replace("-", "_")
    rows = frame.select("partition", "offset", F.spark_partition_id().alias("spark_task"))
    stream = rows.writeStream.format("memory").queryName(name).option("checkpointLocation", str(checkpoint))
    query = stream.trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(60)
    finally:
        query.stop()
    return frame.sparkSession.table(name).collect()


@pytest.mark.parametrize(("options", "spark_tasks"), [({"targetBatchMillis": 10_000}, 1), ({}, _PARTITIONS)])
def test_few_rows_are_read_by_one_spark_task_unless_the_limits_are_the_users(
    session: SparkSession, kafka: EmbeddedKafka, tmp_path: Path, options: dict[str, Any], spark_tasks: int
) -> None:
    rows = _run(read(session, kafka.bootstrap, topic_of(kafka.bootstrap, _TIMES), **options), tmp_path)
    expected = {(partition, offset) for partition in _TIMES for offset in range(5)}
    assert sorted((row["partition"], row["offset"]) for row in rows) == sorted(expected)
    assert len({row["spark_task"] for row in rows}) == spark_tasks


def test_the_next_query_of_a_job_makes_no_consumers_and_a_topic_made_again_does(
    session: SparkSession, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    """1. A query reads. 2. Another one, of another checkpoint, reads on with the same consumers. 3. The same topic by
    another id. 4. A query has failed."""
    topic = topic_of(kafka.bootstrap, _TIMES)
    frame = read(session, kafka.bootstrap, topic)
    before, consumers = _consumers(session), Consumers()
    consumers.share(session, "j", {topic: Topic(_PARTITIONS, id="first")})
    assert len(_run(frame, tmp_path / "1")) == 5 * _PARTITIONS
    first = _consumers(session) - before
    assert len(first) == _PARTITIONS
    write_times(kafka.bootstrap, topic, _TIMES)
    assert len(_run(frame, tmp_path / "2")) == 10 * _PARTITIONS
    assert _consumers(session) - before == first
    consumers.share(session, "j", {topic: Topic(_PARTITIONS, id="second")})
    assert len(_run(frame, tmp_path / "3")) == 10 * _PARTITIONS
    second = _consumers(session) - before - first
    assert len(second) == _PARTITIONS
    consumers.failed("j")
    consumers.share(session, "j", {topic: Topic(_PARTITIONS, id="second")})
    assert len(_run(frame, tmp_path / "4")) == 10 * _PARTITIONS
    assert len(_consumers(session) - before - first - second) == _PARTITIONS


def _consumers(session: SparkSession) -> Set[str]:
    """The names of all shared Kafka consumers that the JVM has."""
    jvm: Any = session._jvm
    # Its class is not public, so py4j finds its methods by the interface only.
    types = jvm.java.lang.Class.forName("javax.management.MBeanServer").getMethods()
    names = next(method for method in types if method.getName() == "queryNames")
    pattern = jvm.javax.management.ObjectName("kafka.consumer:type=consumer-metrics,client-id=*penstock-source-*")
    arguments = session.sparkContext._gateway.new_array(jvm.java.lang.Object, 2)
    arguments[0] = pattern
    return {
        str(bean)
        for bean in names.invoke(jvm.java.lang.management.ManagementFactory.getPlatformMBeanServer(), arguments)
    }
