"""What a redistribution does besides moving state: settle, refuse, repeat, seal."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import StreamingQueryException

from penstock.control.errors import BrokenTask
from penstock.spark.failures import failure_of
from penstock.spark.initialize import initialize
from penstock.spark.redistribute import engine
from penstock.spark.redistribute.engine import redistribute
from penstock.spark.redistribute.seal import seal
from penstock.spark.sinks.files import read_all
from penstock.spark.task import Runtime
from penstock.tasks.redistribution import SealRequest
from penstock.tasks.sinks import SinkRequest
from tests.support.spark.redistribution import Events, Job, job_config, output_topic
from tests.support.spark.session import forget_last_commit

SUM = {"sql": "SELECT k, count(*) AS c, sum(v) AS s FROM events GROUP BY k"}
WINDOW = {"sql": "SELECT window.start AS w, k, count(*) AS c FROM events GROUP BY window(at, '20 seconds'), k"}
COPY = {"sql": "SELECT k, v FROM events"}


def make_job(runtime: Runtime, events: Events, query: dict[str, str], **more: Any) -> Job:
    output = more.pop("output", None) or output_topic(events.bootstrap)
    function = more.pop("key_function", "spark")
    return Job(runtime, job_config({"events": events.topic}, function, output, query=query, **more))


def test_a_batch_that_was_written_but_not_committed_is_finished_first(
    runtime: Runtime, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. Both tasks lose their last commit, as by `kill -9`. 2. Two are settled; there is no state, so nothing is made
    that moves state. 3. Nothing is there twice."""
    monkeypatch.setattr(engine, "StateMover", None)
    events.add_range(0, 300)
    job = make_job(runtime, events, COPY, task_count=2)
    job.run()
    for index in range(2):
        forget_last_commit(job.checkpoint(index))
    events.add_range(300, 600)
    report = job.rescale(task_count=3)
    assert report.settled == 2
    job.run()
    assert job.rows() == job.unsplit().rows()


@pytest.mark.long
def test_a_redistribution_may_be_repeated_over_what_another_attempt_left(runtime: Runtime, events: Events) -> None:
    """1. An attempt. 2. It was not whole, and left a file that is not its own. 3. Repeated, also after the seal."""
    events.add_range(0, 300)
    job = make_job(runtime, events, SUM, task_count=2, output_mode="update")
    job.run()
    request = job.target(task_count=1)
    redistribute(runtime, request)
    job.generation = 2
    forget_last_commit(job.checkpoint(0))
    (job.checkpoint(0) / "state/0/0/2.delta").write_text("of nobody")
    redistribute(runtime, request)
    seal(runtime, SealRequest(job=job.name, layout=request.source))
    redistribute(runtime, request)
    assert not (job.checkpoint(0) / "state/0/0/2.delta").exists()
    job.config = request.target.config
    events.add_range(300, 600)
    job.run()
    assert job.last_rows("k") == job.unsplit().last_rows("k")


def test_a_sealed_generation_does_not_start_again(runtime: Runtime, events: Events) -> None:
    events.add_range(0, 60)
    job = make_job(runtime, events, COPY, task_count=2)
    job.run([0])
    for _ in range(2):
        seal(runtime, SealRequest(job=job.name, layout=job.layout))
    events.add_range(60, 120)
    for index in range(2):
        with pytest.raises(StreamingQueryException) as failed:
            job.run([index])
        assert failure_of(failed.value).error_kind == "fenced"
    assert sorted(path.name for path in (job.checkpoint(0) / "offsets").iterdir() if path.name.isdigit()) == ["0", "1"]


@pytest.mark.long  # test_savepoints.py saves such a job, and starts another from it
def test_a_job_that_has_read_nothing_goes_on_from_where_it_began(runtime: Runtime, events: Events) -> None:
    """1. A job that begins at the end of its input starts. 2. Rows come. 3. The new tasks read them."""
    events.add_range(0, 60)
    job = make_job(runtime, events, COPY, task_count=1)
    config = job.config
    source = config.inputs["events"].model_copy(update={"starting_position": "latest"})
    job.config = config.model_copy(update={"inputs": {"events": source}})
    job.run()
    events.add_range(60, 120)
    job.rescale(task_count=2)
    job.run()
    assert sum(job.rows().values()) == 60


def test_the_files_sink_goes_on_over_its_compactions(runtime: Runtime, events: Events, tmp_path: Path) -> None:
    """Spark's sink compacts its log every few batches and reads it from batch 0 on, which the new task never ran.

    1. A rescale. 2. Another folder: a new generation, whose log begins anew. 3. The folder is not for another job.
    4. Nor for the same job once its checkpoint is gone: Spark would skip its batches without a word.
    """
    events.add_range(0, 60)
    output = {"type": "files", "path": str(tmp_path / "out")}
    compact_often = {"spark.sql.streaming.fileSink.log.compactInterval": "3"}
    job = make_job(runtime, events, COPY, output=output, spark_settings=compact_often, task_count=2)
    job.run()
    job.rescale(task_count=1)
    for batch in range(1, 4):
        events.add_range(60 * batch, 60 * (batch + 1))
        job.run()
    assert read_all(runtime.spark, output["path"]).count() == 60 * 4
    assert (tmp_path / "out/g2/task-0/_spark_metadata/2.compact").exists()
    elsewhere = job.config.output.model_copy(update={"path": str(tmp_path / "elsewhere")})
    job.rescale(output=elsewhere)
    for batch in range(4, 7):
        events.add_range(60 * batch, 60 * (batch + 1))
        job.run()
    assert read_all(runtime.spark, output["path"]).count() == 60 * 4
    assert read_all(runtime.spark, elsewhere.path).count() == 60 * 3
    with pytest.raises(BrokenTask, match=f"has files of the job {job.name}: "):
        initialize(runtime, SinkRequest(job=f"{job.name}-2", revision=1, config=job.config))
    initialize(runtime, SinkRequest(job=job.name, revision=1, config=job.config))
    shutil.rmtree(job.checkpoint(0))
    with pytest.raises(BrokenTask, match="of another checkpoint, so Spark would skip this one's"):
        job.run()


def test_keys_that_are_not_where_the_configuration_says_are_refused(runtime: Runtime, events: Events) -> None:
    """The producer used Spark's hash; the job says murmur2. Nothing is moved to where it would be lost."""
    events.add_range(0, 60)
    job = make_job(runtime, events, SUM, task_count=2, output_mode="update", key_function="kafka")
    job.run()
    with pytest.raises(Py4JJavaError) as refused:
        job.rescale(task_count=3)
    failure = failure_of(refused.value)
    assert failure.error_kind == "broken_task"
    assert "key_function" in failure.error


@pytest.mark.long
def test_state_without_the_key_of_its_input_is_refused(runtime: Runtime, events: Events) -> None:
    events.add_range(0, 60)
    query = {"sql": "SELECT upper(k) AS u, count(*) AS c FROM events GROUP BY upper(k)"}
    job = make_job(runtime, events, query, output_mode="update")
    job.run()
    with pytest.raises(BrokenTask, match="shuffle job"):
        job.rescale(task_count=2)


@pytest.mark.long
def test_threads_of_a_single_task_change_without_any_key(runtime: Runtime, events: Events) -> None:
    events.add_range(0, 300)
    query = {"sql": "SELECT v, count(*) AS c FROM events GROUP BY v"}
    job = make_job(runtime, events, query, output_mode="update", key_function="none")
    job.run()
    report = job.rescale(threads_per_task=3)
    assert report.state_rows == 100
    events.add_range(150, 450)
    job.run()
    assert job.last_rows("v") == job.unsplit().last_rows("v")
