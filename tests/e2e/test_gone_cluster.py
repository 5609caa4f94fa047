"""A job leaves a Kafka cluster that dies: by real processes, from the change of its output to its rows elsewhere."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from penstock.control.process import wait_until
from penstock.kafka.access import CLUSTERS
from penstock.local import records
from penstock.local.kafka import EmbeddedKafka
from penstock.local.stack import LocalStack
from penstock.local.topics import create_topics
from penstock.model.jobs import JobState
from tests.e2e.conftest import PERIODS
from tests.support.spark.redistribution import rows_of_topic

JOB, WAIT_S = "leaver", 180.0
OUTPUT = {"type": "kafka", "topic": "copies", "key_groups": 1}
CONFIG: dict[str, Any] = {
    "inputs": {"rows": {"topic": "rows", "key_groups": 2, "value_schema": "id BIGINT"}},
    "query": {"sql": "SELECT id FROM rows"},
    "output": OUTPUT | {"cluster": "eu"},
    "trigger_interval_seconds": 0.5,
}


def stack_with(folder: Path, **eu: Any) -> LocalStack:
    """A stack on the data of the folder that knows the cluster `eu`."""
    own = {name: str(value) for name, value in PERIODS.items()} | {CLUSTERS: json.dumps({"eu": eu})}
    return LocalStack(folder, task_managers=1, free_ports=True, environment=own)


def send(stack: LocalStack, numbers: range) -> None:
    lines = io.StringIO("".join(f'{{"id": {number}}}\n' for number in numbers))
    records.produce(stack.plan.kafka_bootstrap, "rows", 2, lines, records.json_lines())


def ids(bootstrap: str) -> list[int]:
    return sorted(row["id"] for row in rows_of_topic(bootstrap, "copies"))


@pytest.mark.long
def test_a_job_leaves_a_cluster_that_died_once_an_operator_says_so(servers_dir: Path) -> None:
    """1. The cluster of the output dies, and the job is to write to the cell's own. 2. The change fails with the
    cluster and what to do, and stopped nothing; the old task is still there. 3. The cell is started again with
    the cluster as gone: the job moves, and has the rows since once."""
    folder = servers_dir / "leaving"
    folder.mkdir()
    with EmbeddedKafka(servers_dir / "leaving-eu") as eu, stack_with(folder, bootstrap=eu.bootstrap) as stack:
        create_topics(stack.plan.kafka_bootstrap, {"rows": 2, "copies": 1})
        create_topics(eu.bootstrap, {"copies": 1})
        with stack.client() as client:
            client.put_job(JOB, CONFIG)
            send(stack, range(10))
            wait_until(lambda: ids(eu.bootstrap) == list(range(10)), WAIT_S, "the first rows")
            eu.stop()
            client.put_job(JOB, {**CONFIG, "output": OUTPUT})
            wait_until(lambda: client.get_job(JOB).state == JobState.FAILED, WAIT_S, "the change to fail")
            detail = client.sync(JOB).detail or ""
            assert detail.startswith(
                "step copy_state on task_manager_1: the old generation cannot be sealed now: generation 1 is to end"
            )
            assert f"on the Kafka eu ({eu.bootstrap})" in detail
            assert detail.endswith(f"set eu.gone to true in {CLUSTERS}; the job was never stopped")
            assert [task.generation for task in client.tasks(JOB).tasks] == [1]
        send(stack, range(10, 20))

    with stack_with(folder, bootstrap=eu.bootstrap, gone=True) as stack:
        wait_until(lambda: ids(stack.plan.kafka_bootstrap) == list(range(10, 20)), WAIT_S, "the rows since")
        with stack.client() as client:
            wait_until(lambda: client.get_job(JOB).converged, WAIT_S, "the job to run its change")
