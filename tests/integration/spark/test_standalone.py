"""A host whose tasks run on the executors of a Spark standalone cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.local.kafka import EmbeddedKafka
from tests.support.spark.hosts import (
    QUICK_JVM,
    consume,
    job_config,
    make_topic,
    produce,
    running_host,
    settings_for,
    task_spec,
)
from tests.support.spark.standalone import standalone


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """A master and one worker of one core; gives the master's address."""
    with standalone(tmp_path, cores=1, memory_mb=600) as address:
        yield address


@pytest.mark.long
def test_a_task_runs_on_a_standalone_cluster(kafka: EmbeddedKafka, tmp_path: Path, master: str) -> None:
    """A stateful query: Kafka is read, and the fenced state is written, by the executor."""
    topic, target = make_topic(kafka.bootstrap, 2), make_topic(kafka.bootstrap, 1)
    produce(kafka.bootstrap, topic, [{"n": n, "word": f"w{n % 3}"} for n in range(30)], 2)
    executor = {
        "spark.executor.memory": "600m",
        "spark.executor.cores": "1",
        "spark.executor.extraJavaOptions": QUICK_JVM,
    }
    settings = settings_for(tmp_path, kafka.bootstrap, spark_master=master, spark_conf=executor)
    query = {"sql": "SELECT word, count(*) AS rows FROM events GROUP BY word"}
    spec = task_spec("far", job_config(topic, 2, {"type": "kafka", "topic": target}, query=query, output_mode="update"))
    with running_host("far", settings, tmp_path) as supervisor:
        reply = supervisor.start(spec)
        assert reply.ok, reply.error
        assert supervisor.wait_for_records(spec.task_id, 30).state_rows == 3
        assert supervisor.stop(spec.task_id, finish_pending=True).result["clean"]
    assert {row["word"]: row["rows"] for row in consume(kafka.bootstrap, target, 3)} == {"w0": 10, "w1": 10, "w2": 10}
    assert list((tmp_path / "work").glob("app-*/0/stderr"))
