"""Checkpoints of ordinary Spark applications become savepoints of jobs, which go on from them exactly."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from penstock.control.errors import BrokenTask
from penstock.local.kafka import EmbeddedKafka
from penstock.spark.files import LocalFiles, local_path
from penstock.spark.redistribute.engine import redistribute
from penstock.spark.savepoint import foreign
from penstock.spark.savepoint.foreign import import_checkpoint, problems, read_application
from penstock.spark.savepoint.take import savepoint_folder
from penstock.spark.session import STATE_STORES
from penstock.spark.task import Runtime
from penstock.tasks.redistribution import Layout, RedistributionReport, RedistributionRequest, SavepointName
from penstock.tasks.savepoint import ImportRequest, SavepointReport
from penstock.tasks.spec import key_group_ranges
from tests.support.spark.application import Application
from tests.support.spark.hosts import make_topic
from tests.support.spark.redistribution import KEY_GROUPS, Events, Job, Keys, job_config, output_topic
from tests.support.spark.stateful_processor import at_timer

SUM = {"sql": "SELECT k, count(*) AS c, sum(v) AS s FROM events GROUP BY k"}


def summing(runtime: Runtime, events: Events, folder: Path, **more: Any) -> Application:
    return Application(
        runtime.spark,
        events.bootstrap,
        {"events": events.topic},
        folder / "application",
        lambda inputs: inputs["events"].groupBy("k").agg(F.count("*").alias("c"), F.sum("v").alias("s")),
        **more,
    )


@pytest.fixture(scope="module")
def sums(runtime: Runtime, keys: Keys, kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Application:
    """One that has finished a batch. It is only read."""
    events = Events(kafka.bootstrap, make_topic(kafka.bootstrap, KEY_GROUPS), keys)
    events.add_range(0, 30)
    application = summing(runtime, events, tmp_path_factory.mktemp("sums"))
    application.run()
    return application


def make_job(runtime: Runtime, events: Events, **more: Any) -> Job:
    fields = {"query": SUM, "output_mode": "update", "task_count": 3, **more}
    return Job(runtime, job_config({"events": events.topic}, "spark", output_topic(events.bootstrap), **fields))


def layout_of(job: Job) -> Layout:
    config = job.config.model_copy(update={"task_count": 1})
    return Layout(generation=1, config=config, ranges=key_group_ranges(config))


def take_in(job: Job, checkpoint: Path) -> SavepointReport:
    request = ImportRequest(job=job.name, name="old", number=1, layout=layout_of(job), checkpoint=str(checkpoint))
    return import_checkpoint(job.runtime, request)


def start_from(job: Job) -> RedistributionReport:
    source = layout_of(job).model_copy(update={"savepoint": SavepointName(job=job.name, name="old", number=1)})
    return redistribute(job.runtime, RedistributionRequest(job=job.name, source=source, target=job.layout))


def test_an_application_goes_on_as_a_job_of_several_tasks(runtime: Runtime, events: Events, tmp_path: Path) -> None:
    """1. It sums in three state partitions. 2. It dies in a batch. 3. Its checkpoint is imported: the report says which
    batch. 4. A job of three tasks reads what the application had not finished, and what comes later: exact."""
    application = summing(runtime, events, tmp_path)
    events.add_range(0, 300)
    application.run()
    events.add_range(300, 400)
    with pytest.raises(Exception, match="the application dies"):
        application.run(_dies)
    job = make_job(runtime, events)
    (task,) = take_in(job, application.checkpoint).tasks
    assert (task.index, task.unfinished) == (0, (task.batch or 0) + 1)
    assert start_from(job).state_rows == 60
    events.add_range(400, 600)
    job.run()
    assert job.last_rows("k") == job.unsplit().last_rows("k")


@pytest.mark.long
@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
def test_windows_go_on_and_each_comes_out_once(runtime: Runtime, events: Events, tmp_path: Path, backend: str) -> None:
    """What the application has written and what the job writes are together the rows of an unsplit run."""
    written: list[Any] = []
    application = Application(
        runtime.spark,
        events.bootstrap,
        {"events": events.topic},
        tmp_path / "application",
        lambda inputs: (
            inputs["events"]
            .groupBy(F.window("at", "20 seconds").alias("w"), "k")
            .agg(F.count("*").alias("c"))
            .select(F.col("w.start").cast("long").alias("t"), "k", "c")
        ),
        output_mode="append",
        settings={"spark.sql.streaming.stateStore.providerClass": STATE_STORES[backend]},
    )
    events.add_range(0, 300)
    application.run(lambda frame, _: written.extend(frame.toJSON().collect()))
    windows = "SELECT CAST(w.start AS BIGINT) AS t, k, c FROM (SELECT window(at, '20 seconds') AS w, k, count(*) AS c"
    query = {"sql": f"{windows} FROM events GROUP BY 1, 2)"}
    job = make_job(runtime, events, query=query, output_mode="append", state_backend=backend, task_count=2)
    take_in(job, application.checkpoint)
    start_from(job)
    events.add_range(300, 600)
    events.add_far_future()
    job.run()
    before = Counter(tuple(sorted(json.loads(row).items())) for row in written)
    assert before
    assert before + job.rows() == job.unsplit().rows()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"state_backend": "rocksdb"}, "state_backend rocksdb: set it to heap"),
        pytest.param(
            {"key_groups": KEY_GROUPS - 1},
            f"offsets of {KEY_GROUPS} partitions of .* has 5 key_groups",
            marks=pytest.mark.long,
        ),
        pytest.param(
            {"topic": "another"},
            "its query reads .* in this order, the job's query reads another",
            marks=pytest.mark.long,
        ),
    ],
)
def test_what_cannot_be_the_jobs_is_refused(
    runtime: Runtime, sums: Application, events: Events, more: dict[str, Any], said: str
) -> None:
    fields = {name: value for name, value in more.items() if name == "state_backend"}
    job = make_job(runtime, replace(events, topic=next(iter(sums.topics.values()))), **fields)
    source = job.config.inputs["events"].model_copy(update={k: v for k, v in more.items() if k != "state_backend"})
    job.config = job.config.model_copy(update={"inputs": {"events": source}})
    with pytest.raises(BrokenTask, match=said):
        take_in(job, sums.checkpoint)
    assert not local_path(savepoint_folder(runtime.settings.checkpoint_root, job.name, "old")).exists()


@pytest.mark.long
def test_state_that_is_encoded_as_avro_is_refused(runtime: Runtime, events: Events, tmp_path: Path) -> None:
    """A copy would read the bytes as what they are not. Of Spark's operators `transformWithState` has such state."""
    encoded = {
        "spark.sql.streaming.stateStore.providerClass": STATE_STORES["rocksdb"],
        "spark.sql.streaming.stateStore.encodingFormat": "avro",
    }
    application = Application(
        runtime.spark,
        events.bootstrap,
        {"events": events.topic},
        tmp_path / "application",
        lambda inputs: at_timer(runtime.spark, inputs, {}),
        settings=encoded,
    )
    events.add_range(0, 30)
    application.run()
    job = make_job(runtime, events, state_backend="rocksdb")
    with pytest.raises(BrokenTask, match=r"checkpoint: its state is encoded as avro; only unsaferow, .* can be moved"):
        take_in(job, application.checkpoint)
    assert not local_path(savepoint_folder(runtime.settings.checkpoint_root, job.name, "old")).exists()


@pytest.mark.long
def test_an_application_that_still_runs_is_refused_until_it_stops(
    runtime: Runtime, events: Events, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. It finishes a batch while its checkpoint is looked at: refused, and nothing is left. 2. It has stopped: the
    same import is taken."""
    application = summing(runtime, events, tmp_path)
    events.add_range(0, 60)
    application.run()
    job = make_job(runtime, events)
    inputs_read = foreign._inputs_read

    def goes_on(*given: Any) -> Any:
        events.add_range(60, 90)
        application.run()
        return inputs_read(*given)

    monkeypatch.setattr(foreign, "_inputs_read", goes_on)
    with pytest.raises(BrokenTask, match="checkpoint: the application still runs: stop it, then import"):
        take_in(job, application.checkpoint)
    assert not local_path(savepoint_folder(runtime.settings.checkpoint_root, job.name, "old")).exists()
    monkeypatch.undo()
    assert take_in(job, application.checkpoint).tasks[0].unfinished is None
    start_from(job)
    events.add_range(90, 390)
    job.run()
    assert job.last_rows("k") == job.unsplit().last_rows("k")


def test_what_is_no_whole_checkpoint_is_refused(runtime: Runtime, sums: Application, tmp_path: Path) -> None:
    """Nothing there; only planned; no metadata of operators, as before Spark 4; a source of another kind."""
    files = LocalFiles()
    with pytest.raises(BrokenTask, match="no checkpoint of a streaming query"):
        read_application(str(tmp_path / "nothing"), files)
    copies = {name: tmp_path / name for name in ("planned", "old", "other")}
    for copy in copies.values():
        shutil.copytree(sums.checkpoint, copy)
    shutil.rmtree(copies["planned"] / "commits")
    shutil.rmtree(copies["old"] / "state" / "0" / "_metadata")
    for offsets in (copies["other"] / "offsets").glob("[0-9]*"):
        lines = offsets.read_text().split("\n")
        offsets.write_text("\n".join([*lines[:2], json.dumps({"logOffset": 3})]))
    for name, said in {
        "planned": "finished no batch",
        "old": "perhaps since an older Spark wrote it",
        "other": "source 0 of its query does not read Kafka topics",
    }.items():
        with pytest.raises(BrokenTask, match=said):
            read_application(str(copies[name]), files)


def _dies(*_: object) -> None:
    raise RuntimeError("the application dies")


@pytest.mark.long
def test_an_application_that_read_another_cluster_goes_on_as_a_job(
    both: Runtime, kafka: EmbeddedKafka, eu: EmbeddedKafka, keys: Keys, tmp_path: Path
) -> None:
    """1. The names of topics in its checkpoint have no cluster; the job's input says which. 2. Of two inputs of one
    name nobody could say it: refused."""
    events = Events(eu.bootstrap, make_topic(eu.bootstrap, KEY_GROUPS), keys)
    events.add_range(0, 100)
    application = summing(both, events, tmp_path)
    application.run()
    fields = {"query": SUM, "output_mode": "update", "task_count": 2}
    config = job_config({"events": events.topic}, "spark", output_topic(kafka.bootstrap), **fields)
    there = config.inputs["events"].model_copy(update={"cluster": "eu"})
    job = Job(both, config.model_copy(update={"inputs": {"events": there}}))
    take_in(job, application.checkpoint)
    assert start_from(job).state_rows > 0
    events.add_range(100, 200)
    job.run()
    assert job.last_rows("k") == job.unsplit().last_rows("k")

    found = next(
        problems(read_application(str(application.checkpoint), both.files), config, [there, config.inputs["events"]])
    )
    assert "does not tell topics of one name apart" in found
