"""Savepoints of jobs on Spark: taken while they run, restored at another size, stood in for, removed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.control.errors import BrokenCheckpoint, Fenced
from penstock.control.process import wait_until
from penstock.local.kafka import EmbeddedKafka
from penstock.spark.checkpoint import last_commit
from penstock.spark.files import Files, LocalFiles, local_path
from penstock.spark.hadoop import HadoopFiles
from penstock.spark.redistribute.engine import redistribute
from penstock.spark.redistribute.old import OldGeneration
from penstock.spark.redistribute.positions import task_specs
from penstock.spark.savepoint.take import remove, savepoint_folder, take
from penstock.spark.task import RunningTask, Runtime
from penstock.tasks.redistribution import RedistributionReport, RedistributionRequest, SavepointName
from penstock.tasks.savepoint import SavepointRemoval, SavepointRequest
from tests.support.spark.hosts import make_topic
from tests.support.spark.redistribution import KEY_GROUPS, Events, Job, Keys, job_config, output_topic

SUM = {"sql": "SELECT k, count(*) AS c, sum(v) AS s FROM events GROUP BY k"}
READ_SECONDS = 60.0


@pytest.fixture
def events(runtime: Runtime, kafka: EmbeddedKafka) -> Events:
    return Events(kafka.bootstrap, make_topic(kafka.bootstrap, KEY_GROUPS), Keys(runtime.spark, "spark"))


def make_job(runtime: Runtime, events: Events, **more: Any) -> Job:
    output = output_topic(events.bootstrap)
    fields = {"query": SUM, "output_mode": "update", "task_count": 2, **more}
    return Job(runtime, job_config({"events": events.topic}, "spark", output, **fields))


def request(job: Job, name: str, number: int, *earlier: str) -> SavepointRequest:
    return SavepointRequest(job=job.name, name=name, number=number, layout=job.layout, earlier=earlier)


def folder(job: Job, name: str) -> Path:
    return local_path(savepoint_folder(job.runtime.settings.checkpoint_root, job.name, name))


def restore(job: Job, name: str, into: Job) -> RedistributionReport:
    """Begins a generation of `into` with a savepoint of `job`."""
    source = job.layout.model_copy(update={"savepoint": SavepointName(job=job.name, name=name)})
    report = redistribute(job.runtime, RedistributionRequest(job=into.name, source=source, target=into.layout))
    assert (report.settled, report.levelled) == (0, 0)
    return report


def with_fields(job: Job, **changes: Any) -> Job:
    """A job of the same configuration but these fields, with an output of its own."""
    output = job.config.output.model_copy(update=output_topic(job.runtime.settings.kafka_bootstrap))
    return Job(job.runtime, job.config.model_copy(update={"output": output, **changes}))


@pytest.mark.parametrize("backend", [pytest.param("heap", marks=pytest.mark.long), "rocksdb"])
def test_a_running_job_is_saved_cloned_and_rolled_back(runtime: Runtime, events: Events, backend: str) -> None:
    """1. Tasks run and are saved meanwhile. 2. They go on. 3. A new job of three tasks starts from the savepoint and
    reads the rest: exact. 4. So does the job itself, rolled back as one task of two threads."""
    events.add_range(0, 300)
    job = make_job(runtime, events, state_backend=backend)
    tasks = [RunningTask(runtime, spec, epoch=1) for spec in task_specs(job.name, job.layout)]
    for task in tasks:
        task.start()
    reader = OldGeneration(runtime, job.name, job.layout)
    wait_until(lambda: all(reader.has_read_all(index) for index in range(2)), READ_SECONDS, "the tasks to read")
    report = take(runtime, request(job, "first", 1))
    assert all(task.is_active for task in tasks)
    assert report.bytes > 0
    events.add_range(300, 600)
    reader = OldGeneration(runtime, job.name, job.layout)
    wait_until(lambda: all(reader.has_read_all(index) for index in range(2)), READ_SECONDS, "the tasks to read on")
    for task in tasks:
        task.stop(finish_pending=True)

    clone = with_fields(job, task_count=3)
    back = with_fields(job, task_count=1, threads_per_task=2)
    back.name, back.generation = job.name, 2
    for restored in (clone, back):
        assert restore(job, "first", restored).state_rows == 60
        restored.run()
    unsplit = job.unsplit().last_rows("k")
    assert job.last_rows("k") == clone.last_rows("k") == back.last_rows("k") == unsplit


@pytest.mark.long
def test_a_savepoint_is_of_links_and_taken_once(runtime: Runtime, events: Events) -> None:
    """1. Saved twice: one savepoint. 2. The job reads on: it is as it was. 3. The name is taken again, then removed."""
    events.add_range(0, 60)
    job = make_job(runtime, events)
    job.run()
    report = take(runtime, request(job, "nightly", 1))
    before = [last_commit(str(job.checkpoint(index))) for index in range(2)]
    assert [task.batch for task in report.tasks] == before
    delta = "state/0/0/1.delta"
    assert (folder(job, "nightly") / "task-0" / delta).samefile(job.checkpoint(0) / delta)
    events.add_range(60, 120)
    job.run()
    assert take(runtime, request(job, "nightly", 1)) == report
    assert last_commit(str(folder(job, "nightly") / "task-0")) == before[0]
    after = [last_commit(str(job.checkpoint(index))) for index in range(2)]
    assert after != before
    assert [task.batch for task in take(runtime, request(job, "nightly", 2)).tasks] == after
    with pytest.raises(Fenced):
        remove(runtime, SavepointRemoval(job=job.name, name="nightly", number=1))
    for _ in range(2):
        remove(runtime, SavepointRemoval(job=job.name, name="nightly", number=2))
    assert list(folder(job, "nightly").parent.iterdir()) == []


@pytest.mark.long
def test_an_earlier_savepoint_stands_in_for_a_broken_checkpoint(runtime: Runtime, events: Events) -> None:
    """1. Saved whole. 2. A file of one task's state is gone: nothing stands in, so it fails, and leaves nothing. 3. The
    first savepoint stands in for that task, and the savepoint says so; it can be restored."""
    events.add_range(0, 60)
    job = make_job(runtime, events)
    job.run()
    first = take(runtime, request(job, "first", 1)).tasks
    events.add_range(60, 120)
    job.run()
    newest = last_commit(str(job.checkpoint(1)))
    assert newest is not None
    (job.checkpoint(1) / f"state/0/0/{newest + 1}.delta").unlink()
    with pytest.raises(BrokenCheckpoint, match=rf"/1 cannot be copied, and no earlier .*version {newest + 1}"):
        take(runtime, request(job, "second", 2))
    assert [path.name for path in folder(job, "first").parent.iterdir()] == ["first"]
    whole, stood_in = take(runtime, request(job, "second", 2, "missing", "first")).tasks
    assert (whole.batch, whole.taken_from) == (last_commit(str(job.checkpoint(0))), None)
    assert (stood_in.batch, stood_in.taken_from) == (first[1].batch, "first")
    assert f"version {newest + 1}" in str(stood_in.why)
    clone = with_fields(job, task_count=1)
    restore(job, "second", clone)
    events.add_range(120, 300)
    clone.run()
    assert clone.last_rows("k") == clone.unsplit().last_rows("k")


@pytest.mark.long
def test_a_job_that_has_read_nothing_can_be_saved(runtime: Runtime, events: Events) -> None:
    events.add_range(0, 60)
    job = make_job(runtime, events)
    report = take(runtime, request(job, "empty", 1))
    assert [task.batch for task in report.tasks] == [None, None]
    clone = with_fields(job, task_count=1)
    restore(job, "empty", clone)
    clone.run()
    assert clone.last_rows("k") == clone.unsplit().last_rows("k")


def test_a_savepoint_that_is_gone_or_of_another_generation_is_not_taken_for_an_empty_one(
    runtime: Runtime, events: Events
) -> None:
    job = make_job(runtime, events)
    with pytest.raises(BrokenCheckpoint, match="there is no savepoint"):
        restore(job, "gone", with_fields(job))
    take(runtime, request(job, "first", 1))
    job.generation = 2
    with pytest.raises(BrokenCheckpoint, match="has generation 1, not 2"):
        restore(job, "first", with_fields(job))


@pytest.mark.parametrize("local", [True, False])
def test_files_are_copied_published_and_deleted(runtime: Runtime, tmp_path: Path, local: bool) -> None:
    files: Files = LocalFiles() if local else HadoopFiles(runtime.spark)
    root = str(tmp_path)
    files.write(f"{root}/a/one", b"content")
    with pytest.raises(FileExistsError):
        files.write(f"{root}/a/one", b"other")
    files.copy(f"{root}/a/one", f"{root}/b/c/two")
    assert (files.read(f"{root}/b/c/two"), files.size(f"{root}/b/c/two")) == (b"content", 7)
    for missing in (
        lambda: files.copy(f"{root}/none", f"{root}/d"),
        lambda: files.size(f"{root}/none"),
        lambda: files.read(f"{root}/none"),
    ):
        with pytest.raises(FileNotFoundError):
            missing()
    assert files.publish(f"{root}/b", f"{root}/named")
    assert not files.publish(f"{root}/a", f"{root}/named")
    assert files.read(f"{root}/named/c/two") == b"content"
    for _ in range(2):
        files.delete(f"{root}/named")
    assert files.names(f"{root}/named") == []
