"""Tasks whose queries and stores are made ahead: the results are those of an unsplit run, whatever became of it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from penstock.spark.channel import Prepare
from penstock.spark.prepared import MOST_SECONDS, PreparedTasks
from penstock.spark.redistribute.manifest import MANIFEST
from penstock.spark.redistribute.old import OldGeneration
from penstock.spark.redistribute.positions import task_specs
from penstock.spark.task import RunningTask, Runtime
from tests.support.spark.hosts import REPLY_SECONDS, quick_start, running_host
from tests.support.spark.redistribution import Events, Job, job_config, output_topic

SUM = {"sql": "SELECT k, count(*) AS c, sum(v) AS s FROM events GROUP BY k"}
_RUN_SECONDS = 60.0


@pytest.fixture
def summing(runtime: Runtime, events: Events) -> Job:
    """A task on heap that has read rows."""
    events.add_range(0, 300)
    output = output_topic(events.bootstrap)
    more = {"query": SUM, "output_mode": "update", "task_count": 1, "state_backend": "heap"}
    job = Job(runtime, job_config({"events": events.topic}, "spark", output, **more))
    job.run()
    return job


@pytest.fixture
def prepared(runtime: Runtime) -> Iterator[PreparedTasks]:
    made = PreparedTasks()
    yield made
    made.forget_old(monotonic() + 2 * MOST_SECONDS)
    assert loaded(runtime) == 0


def loaded(runtime: Runtime) -> int:
    """How many stores wait for their query."""
    jvm: Any = runtime.spark._jvm
    return int(jvm.io.penstock.spark42.PreloadedStores.size())


def prepare(prepared: PreparedTasks, job: Job, **change: Any) -> None:
    """Prepares all tasks of the next generation."""
    for spec in task_specs(job.name, job.target(**change).target):
        assert prepared.make(job.runtime, spec, monotonic())


def run(prepared: PreparedTasks, job: Job) -> None:
    """Runs all tasks, with what was prepared for them, until they have read all that there is."""
    reader = OldGeneration(job.runtime, job.name, job.layout)

    def run_task(index: int) -> None:
        spec = task_specs(job.name, job.layout)[index]
        ahead = prepared.take(spec, job.runtime.settings, monotonic())
        assert ahead is not None
        task = RunningTask(job.runtime, spec, epoch=1)
        task.prepared = ahead
        task.claim()
        task.run_until(lambda: reader.has_read_all(index), _RUN_SECONDS)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run_task, range(job.config.task_count)))


def copied_files(job: Job) -> list[Path]:
    """What the copy of the state consists of, without what changed after it."""
    checkpoints = [job.checkpoint(index) for index in range(job.config.task_count)]
    return [path for checkpoint in checkpoints for path in checkpoint.glob("state/0/*/1.delta")]


def test_the_first_batch_begins_with_what_was_loaded_ahead(
    runtime: Runtime, events: Events, summing: Job, prepared: PreparedTasks
) -> None:
    """1. Copied, and the two new tasks are prepared. 2. The old task reads on; its changes move after the stop. 3. The
    files of the copy are deleted: what was loaded from them is all that the new tasks need."""
    summing.copy(task_count=2)
    prepare(prepared, summing, task_count=2)
    assert loaded(runtime) == 2
    events.add_range(300, 330)
    summing.run()
    assert summing.rescale(task_count=2).changed_rows
    for path in copied_files(summing):
        path.unlink()
    events.add_range(330, 450)
    run(prepared, summing)
    assert loaded(runtime) == 0
    assert summing.last_rows("k") == summing.unsplit().last_rows("k")


def test_what_was_loaded_from_a_copy_that_is_not_used_is_not_used_either(
    runtime: Runtime, events: Events, summing: Job, prepared: PreparedTasks
) -> None:
    """1. Copied, and prepared. 2. The old task reads on. 3. The copy is of no use any more, so all state moves into
    stores of the same version."""
    summing.copy(task_count=2)
    prepare(prepared, summing, task_count=2)
    events.add_range(300, 450)
    summing.run()
    (summing.checkpoint(0).parent.parent / "g2" / MANIFEST).unlink()
    assert summing.rescale(task_count=2).changed_rows is None
    run(prepared, summing)
    assert loaded(runtime) == 0
    # Each key comes again: its count goes on from the state.
    events.add_range(450, 600)
    summing.run()
    assert summing.last_rows("k") == summing.unsplit().last_rows("k")


@pytest.mark.long
def test_a_query_that_is_not_the_prepared_one_gives_up_what_was_made(
    runtime: Runtime, summing: Job, prepared: PreparedTasks
) -> None:
    """The configuration changed between the two."""
    summing.copy(task_count=2)
    prepare(prepared, summing, task_count=2)
    changed = [
        spec.model_copy(update={"config": spec.config.model_copy(update={"max_bytes_per_trigger": 10**6})})
        for spec in task_specs(summing.name, summing.target(task_count=2).target)
    ]
    assert [prepared.take(spec, runtime.settings, monotonic()) for spec in changed] == [None, None]
    assert loaded(runtime) == 0


@pytest.mark.long
def test_a_host_that_is_killed_after_it_prepared_changes_nothing(
    runtime: Runtime, events: Events, summing: Job, tmp_path: Path
) -> None:
    """1. Copied; a host prepares both new tasks. 2. The old task reads on, and its state moves. 3. The host is killed
    before it starts them. 4. They run where nothing was prepared."""
    own = {"spark_local_dir": tmp_path / "spark", "heap_bytes": 600 * 2**20, "spark_conf": quick_start()}
    summing.copy(task_count=2)
    specs = task_specs(summing.name, summing.target(task_count=2).target)
    with running_host("prepares", runtime.settings.model_copy(update=own), tmp_path) as host:
        replies = [host.host.send(Prepare(id=0, spec=spec)).result(REPLY_SECONDS) for spec in specs]
        assert [reply.result for reply in replies] == [{"prepared": True}] * 2
        events.add_range(300, 450)
        summing.run()
        assert summing.rescale(task_count=2).changed_rows
        host.host.kill()
        host.exit.result(REPLY_SECONDS)
    events.add_range(450, 600)
    summing.run()
    assert summing.last_rows("k") == summing.unsplit().last_rows("k")
