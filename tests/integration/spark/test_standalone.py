"""A host whose tasks run on the executors of a Spark standalone cluster."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyspark
import pytest

from penstock.control.process import kill_group, start_child, wait_until
from penstock.local.kafka import EmbeddedKafka
from penstock.local.ports import free_port
from tests.support.spark import (
    QUICK_JVM,
    consume,
    job_config,
    make_topic,
    produce,
    running_host,
    settings_for,
    task_spec,
)

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
DEPLOY = "org.apache.spark.deploy"


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """A master and one worker of one core; gives the master's address."""
    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    log = tmp_path / "cluster.log"
    where = ["--host", "127.0.0.1", "--webui-port", "0"]
    size = ["--cores", "1", "--memory", "600m", "--work-dir", str(tmp_path / "work")]
    with ExitStack() as running:
        for words in (["master.Master", *where, "--port", str(port)], ["worker.Worker", *where, *size, address]):
            environment = {**os.environ, "SPARK_DAEMON_JAVA_OPTS": QUICK_JVM}
            child = start_child([SPARK_CLASS, f"{DEPLOY}.{words[0]}", *words[1:]], env=environment, log_path=log)
            running.callback(kill_group, child)
        wait_until(lambda: re.search("Successfully registered with master", log.read_text()), 90, "the worker")
        yield address


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
        assert supervisor.stop(spec.task_id, settle=True).result["clean"]
    assert {row["word"]: row["rows"] for row in consume(kafka.bootstrap, target, 3)} == {"w0": 10, "w1": 10, "w2": 10}
    assert list((tmp_path / "work").glob("app-*/0/stderr"))
