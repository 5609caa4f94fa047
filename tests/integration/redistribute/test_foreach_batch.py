"""Jobs whose output is a function: at a rescale, and at a stop that the function does not heed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from delta.tables import DeltaTable

from penstock.local.kafka import EmbeddedKafka
from penstock.spark.redistribute.positions import task_specs
from penstock.spark.task import RunningTask, Runtime
from tests.support.spark import batch_functions
from tests.support.spark.hosts import make_topic
from tests.support.spark.redistribution import KEY_GROUPS, Events, Job, Keys, job_config
from tests.support.spark.session import forget_last_commit


@pytest.fixture
def events(runtime: Runtime, kafka: EmbeddedKafka) -> Events:
    return Events(kafka.bootstrap, make_topic(kafka.bootstrap, KEY_GROUPS), Keys(runtime.spark, "spark"))


def make_job(runtime: Runtime, events: Events, function: str, **more: Any) -> Job:
    output = {"type": "foreach_batch", "python": f"{batch_functions.__name__}:{function}"}
    query = {"sql": "SELECT k, v FROM events"}
    return Job(runtime, job_config({"events": events.topic}, "spark", output, query=query, **more))


@pytest.mark.long  # two Delta tables
def test_a_series_and_a_batch_never_name_other_rows(runtime: Runtime, events: Events, tmp_path: Path) -> None:
    """1. Two tasks. 2. The last batch of one comes again: it is skipped. 3. Three tasks, whose batches count from zero
    again: none is skipped. One read has filled both tables, exactly."""
    job = make_job(runtime, events, "to_two_tables", args={"folder": str(tmp_path)}, task_count=2)
    for table in ("all", "few"):  # tasks that make a table at once are in each other's way
        builder = DeltaTable.createIfNotExists(runtime.spark).location(str(tmp_path / table))
        builder.addColumn("k", "string").addColumn("v", "bigint").execute()
    events.add((f"k{n % 60}", n, 0) for n in range(100))
    job.run()
    last = forget_last_commit(job.checkpoint(0))
    job.run([0])
    assert batch_functions.called.count((f"{job.name}/1/0", last)) == 2
    job.rescale(task_count=3)
    events.add((f"k{n % 60}", n, 0) for n in range(100, 200))
    job.run()
    for table, values in (("all", range(200)), ("few", range(0, 200, 3))):
        rows = runtime.spark.read.format("delta").load(str(tmp_path / table)).collect()
        assert Counter(row.v for row in rows) == Counter(values)


@pytest.mark.long  # waits until a stop loses its patience
def test_a_function_that_never_returns_is_stopped_with_its_task(runtime: Runtime, events: Events) -> None:
    events.add_range(0, 10)
    job = make_job(runtime, events, "endless")
    (spec,) = task_specs(job.name, job.layout)
    task = RunningTask(runtime, spec, epoch=1)
    task.start()
    assert batch_functions.began.wait(60)
    outcome = task.stop(finish_pending=False, patient=False)
    assert (task.is_active, outcome.last_commit) == (False, None)
