"""Batches of few rows: a Spark task reads several partitions, and its Kafka consumers were there before."""

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
from penstock.tasks.spec import TaskSpec
from tests.support.kafka.event_topics import topic_of, write_times
from tests.support.kafka.windowed import read
from tests.support.spark.hosts import job_config, task_spec
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


def _spec(topic: str) -> TaskSpec:
    return task_spec("j", job_config(topic, _PARTITIONS, {"type": "kafka", "topic": f"{topic}-out"}))


def test_few_rows_are_read_by_few_spark_tasks_once_it_is_known_what_a_row_costs(
    session: SparkSession, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    """The first batch of all has a Spark task for each partition. All batches have all rows."""
    topic = topic_of(kafka.bootstrap, _TIMES)
    Consumers().share(session, _spec(topic), {topic: Topic(_PARTITIONS, id=topic)})
    frame = read(session, kafka.bootstrap, topic, targetBatchMillis=10_000)
    tasks = []
    for attempt in range(20):
        rows = _run(frame, tmp_path / str(attempt))
        expected = {(partition, offset) for partition in _TIMES for offset in range(5)}
        assert sorted((row["partition"], row["offset"]) for row in rows) == sorted(expected)
        tasks.append(len({row["spark_task"] for row in rows}))
        if tasks[-1] < _PARTITIONS:
            break
    assert tasks[0] == _PARTITIONS
    assert tasks[-1] < _PARTITIONS


@pytest.mark.parametrize("options", [{}, {"targetBatchMillis": 10_000}], ids=["limits of the user", "no name"])
def test_each_partition_has_its_spark_task_elsewhere(
    session: SparkSession, kafka: EmbeddedKafka, tmp_path: Path, options: dict[str, Any]
) -> None:
    topic = topic_of(kafka.bootstrap, _TIMES)
    if not options:
        Consumers().share(session, _spec(topic), {topic: Topic(_PARTITIONS, id=topic)})
    frame = read(session, kafka.bootstrap, topic, **options)
    for attempt in range(3):
        assert len({row["spark_task"] for row in _run(frame, tmp_path / str(attempt))}) == _PARTITIONS


def test_the_next_query_of_a_job_makes_no_consumers_and_a_topic_made_again_does(
    session: SparkSession, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    """1. A query reads. 2. Another one, of another checkpoint, reads on with the same consumers. 3. The same topic by
    another id. 4. A query has failed. 5. A query that only finishes a batch."""
    topic = topic_of(kafka.bootstrap, _TIMES)
    frame, spec, consumers = read(session, kafka.bootstrap, topic), _spec(topic), Consumers()
    first, second = {topic: Topic(_PARTITIONS, id=f"{topic}-1")}, {topic: Topic(_PARTITIONS, id=f"{topic}-2")}

    def made(folder: str, rows: int) -> Set[str]:
        before = _consumers(session)
        assert len(_run(frame, tmp_path / folder)) == rows
        return _consumers(session) - before

    consumers.share(session, spec, first)
    assert len(made("1", 5 * _PARTITIONS)) == _PARTITIONS
    write_times(kafka.bootstrap, topic, _TIMES)
    assert made("2", 10 * _PARTITIONS) == set()
    consumers.share(session, spec, second)
    assert len(made("3", 10 * _PARTITIONS)) == _PARTITIONS
    consumers.failed("j")
    consumers.share(session, spec, second)
    assert len(made("4", 10 * _PARTITIONS)) == _PARTITIONS
    consumers.share(session, spec, second, alone=True)
    assert made("5", 10 * _PARTITIONS) == set(), "those of a query alone have Spark's names"


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
