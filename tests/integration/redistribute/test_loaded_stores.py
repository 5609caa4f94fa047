"""The state of a stopped task leaves the heap at once: new tasks that load it on the same host need it only once."""

from __future__ import annotations

import pytest

from penstock.spark.files import local_path
from penstock.spark.redistribute.old import OldGeneration
from penstock.spark.redistribute.positions import task_specs
from penstock.spark.task import RunningTask, Runtime
from tests.support.spark.redistribution import Events, Job, job_config, output_topic

SUM = {"sql": "SELECT k, count(*) AS c FROM events GROUP BY k"}
_RUN_SECONDS = 60.0


def is_loaded(runtime: Runtime, task: RunningTask) -> bool:
    """Whether Spark has the store of the only operator of the task's present or last run."""
    java = runtime.spark._jvm
    store = java.org.apache.spark.sql.execution.streaming.state
    run = java.java.util.UUID.fromString(task.run_id)
    folder = f"file:{local_path(task.checkpoint)}/state"
    provider = store.StateStoreProviderId(store.StateStoreId(folder, 0, 0, "default"), run)
    return bool(store.StateStore.isLoaded(provider))


@pytest.mark.parametrize("backend", ["heap", pytest.param("rocksdb", marks=pytest.mark.long)])
def test_a_stopped_task_gives_back_its_heap(runtime: Runtime, events: Events, backend: str) -> None:
    """RocksDB is not on the heap, and is left to Spark."""
    events.add_range(0, 60)
    more = {"query": SUM, "task_count": 1, "output_mode": "update", "state_backend": backend}
    job = Job(runtime, job_config({"events": events.topic}, "spark", output_topic(events.bootstrap), **more))
    task = RunningTask(runtime, task_specs(job.name, job.layout)[0], epoch=1)
    reader = OldGeneration(runtime, job.name, job.layout)
    task.claim()
    task.run_until(lambda: reader.has_read_all(0) and is_loaded(runtime, task), _RUN_SECONDS)
    assert is_loaded(runtime, task) is (backend == "rocksdb")
