"""The end of old generations on a real file system: what goes, what stays, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.control.errors import Conflict, Fenced
from penstock.local.kafka import EmbeddedKafka
from penstock.spark.checkpoint import COLLECTED
from penstock.spark.collect import collect
from penstock.spark.producers import NOTED_MARKS, ended
from penstock.spark.redistribute.engine import redistribute
from penstock.spark.redistribute.positions import task_specs
from penstock.spark.redistribute.seal import seal
from penstock.spark.savepoint.take import take
from penstock.spark.sinks.kafka import ensure_marks
from penstock.spark.task import RunningTask, Runtime
from penstock.tasks.redistribution import GenerationRemoval, RedistributionRequest, SavepointName, SealRequest
from penstock.tasks.savepoint import SavepointRequest
from tests.support.spark.hosts import make_topic
from tests.support.spark.redistribution import KEY_GROUPS, Events, Job, Keys, job_config, output_topic, rows_of_topic
from tests.support.spark.session import unique

SUM = {"sql": "SELECT k, count(*) AS c, sum(v) AS s FROM events GROUP BY k"}
MARK = [COLLECTED]


def contents(job: Job, generation: int) -> list[str]:
    return names(job.checkpoint(0).parent.with_name(f"g{generation}"))


def names(folder: Path) -> list[str]:
    """What is in a folder; Hadoop keeps checksums beside it."""
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".crc"))


@pytest.mark.long
def test_of_three_rescales_the_last_goes_on_and_a_savepoint_of_the_first_too(
    runtime: Runtime, kafka: EmbeddedKafka
) -> None:
    """1. A job is saved and rescaled. 2. Its first generation does not go before it is sealed, then all of it does,
    also asked again. 3. Nobody starts or redistributes it any more. 4. The second one goes unsealed, since tasks of the
    third have started; the third goes sealed, before any of the fourth has. 5. The job goes on and is exact, and so is
    a clone from the savepoint."""
    events = Events(kafka.bootstrap, make_topic(kafka.bootstrap, KEY_GROUPS), Keys(runtime.spark, "spark"))
    events.add_range(0, 300)
    fields = {"query": SUM, "output_mode": "update", "task_count": 2, "state_backend": "rocksdb"}
    job = Job(runtime, job_config({"events": events.topic}, "spark", output_topic(kafka.bootstrap), **fields))
    job.run()
    first = job.layout
    take(runtime, SavepointRequest(job=job.name, name="first", number=1, layout=first))
    again = job.target(task_count=1)
    job.rescale(task_count=1)
    with pytest.raises(Conflict, match="not sealed"):
        collect(runtime, GenerationRemoval(job=job.name, generation=1))
    noted = f"{NOTED_MARKS}{job.config.output.topic}"
    assert contents(job, 1) == [noted, "task-0", "task-1"]
    seal(runtime, SealRequest(job=job.name, layout=first))
    for _ in range(2):
        collect(runtime, GenerationRemoval(job=job.name, generation=1))
        assert contents(job, 1) == [COLLECTED, noted]
    with pytest.raises(Fenced, match="was collected"):
        RunningTask(runtime, task_specs(job.name, first)[0], epoch=99).claim()
    with pytest.raises(Fenced, match="was collected"):
        redistribute(runtime, again)

    events.add_range(300, 400)
    job.run()
    job.rescale(task_count=2)
    job.run()
    collect(runtime, GenerationRemoval(job=job.name, generation=2))
    third = job.layout
    job.rescale(task_count=1)
    seal(runtime, SealRequest(job=job.name, layout=third))
    collect(runtime, GenerationRemoval(job=job.name, generation=3))
    assert [contents(job, generation) for generation in (1, 2, 3)] == [[COLLECTED, noted]] * 3
    events.add_range(400, 500)
    job.run()
    unsplit = job.unsplit().last_rows("k")
    assert job.last_rows("k") == unsplit

    output = job.config.output.model_copy(update=output_topic(kafka.bootstrap))
    clone = Job(runtime, job.config.model_copy(update={"output": output, "task_count": 1, "threads_per_task": 2}))
    source = first.model_copy(update={"savepoint": SavepointName(job=job.name, name="first")})
    redistribute(runtime, RedistributionRequest(job=clone.name, source=source, target=clone.layout))
    clone.run()
    assert clone.last_rows("k") == unsplit


def make(folder: Path, fence: str | None, *entries: str) -> None:
    (folder / "offsets").mkdir(parents=True)
    if fence is not None:
        (folder / "FENCE").write_text(f"{fence}\nholder\n")
    for number, entry in enumerate(entries):
        (folder / f"offsets/{number}").write_text(entry)


@pytest.fixture(params=["file", "viewfs"])
def root(runtime: Runtime, tmp_path: Path, request: pytest.FixtureRequest) -> Runtime:
    """A runtime whose checkpoints are below the test's folder, as it is or by Hadoop's view file system."""
    mount = unique("mount")
    runtime.spark.conf.set(f"fs.viewfs.mounttable.{mount}.link./data", f"file://{tmp_path}")
    place = str(tmp_path) if request.param == "file" else f"viewfs://{mount}/data"
    settings = runtime.settings.model_copy(update={"checkpoint_root": place})
    return Runtime(runtime.spark, settings, runtime.holder)


def test_an_attempt_that_no_task_started_goes_whatever_it_has(root: Runtime, tmp_path: Path) -> None:
    make(tmp_path / "j/g3/task-0", "7.1", "v1")
    make(tmp_path / "j/g4/task-0", "0.2", "v1")
    make(tmp_path / "j/g4/task-1", None)
    collect(root, GenerationRemoval(job="j", generation=4))
    assert names(tmp_path / "j/g4") == MARK
    with pytest.raises(Conflict):
        collect(root, GenerationRemoval(job="j", generation=3))
    assert (tmp_path / "j/g3/task-0/offsets/0").exists()


def test_a_forgotten_jobs_goes_unsealed_and_what_is_not_there_is_gone(root: Runtime, tmp_path: Path) -> None:
    topic = unique("out")
    ensure_marks(root.settings.kafka_bootstrap, f"{topic}.penstock-marks")
    make(tmp_path / "j/g1/task-0", "7.1", "v1")
    (tmp_path / f"j/g1/{NOTED_MARKS}{topic}").touch()
    collect(root, GenerationRemoval(job="j", generation=1, forgotten=True))
    assert names(tmp_path / "j/g1") == [COLLECTED, f"{NOTED_MARKS}{topic}"]
    assert rows_of_topic(root.settings.kafka_bootstrap, f"{topic}.penstock-marks") == [json.loads(ended("j", 1))]
    for job in ("j", "other"):
        collect(root, GenerationRemoval(job=job, generation=2))
        assert not (tmp_path / job / "g2").exists()


def test_a_deletion_that_was_killed_is_finished_without_its_evidence(root: Runtime, tmp_path: Path) -> None:
    """1. The seals of a generation are gone already, the mark is there. 2. The rest goes; savepoints stay."""
    make(tmp_path / "j/g1/task-1", "7.1")
    (tmp_path / "j/g1" / COLLECTED).touch()
    make(tmp_path / "j/savepoints/nightly/task-0", None, "v1")
    collect(root, GenerationRemoval(job="j", generation=1))
    assert names(tmp_path / "j/g1") == MARK
    assert (tmp_path / "j/savepoints/nightly/task-0/offsets/0").exists()
