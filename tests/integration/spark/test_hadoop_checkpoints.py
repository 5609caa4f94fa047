"""A checkpoint that is not on the local file system: here Hadoop's view file system, with a folder behind it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.control.errors import Conflict, Unavailable
from penstock.control.process import wait_until
from penstock.local.kafka import EmbeddedKafka
from penstock.spark.files import files_of
from penstock.spark.host.exits import ExitReason
from penstock.spark.settings import SparkSettings
from penstock.spark.task import RunningTask, Runtime
from tests.support.spark.hosts import (
    job_config,
    jvm_pid,
    make_topic,
    produce,
    rows_of_files,
    running_host,
    runs,
    settings_for,
    slow_query,
    task_spec,
    wait_gone,
)
from tests.support.spark.session import unique


def on_a_view(folder: Path, bootstrap: str, **more: Any) -> SparkSettings:
    """Settings of a host whose checkpoints are below `viewfs:///data`, which is `folder`."""
    link = {"spark.hadoop.fs.viewfs.mounttable.default.link./data": f"file://{folder}"}
    settings = settings_for(folder, bootstrap, spark_conf=link, boundary_wait_seconds=0.0, **more)
    return settings.model_copy(update={"checkpoint_root": "viewfs:///data/checkpoints"})


@pytest.mark.long
def test_a_story_on_another_file_system(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """1. A task starts and is stopped in mid-batch. 2. It settles. 3. It starts again with the next token, and an
    older epoch is refused. 4. Another owner's claim fences it. 5. The host is killed, which may be repeated."""
    topic = make_topic(kafka.bootstrap, 2)
    config = job_config(topic, 2, {"type": "files", "path": str(tmp_path / "out")}, **slow_query(tmp_path, 500))
    spec = task_spec("far", config)
    checkpoint = tmp_path / "checkpoints" / "far" / "g1" / "task-0"
    with running_host("view", on_a_view(tmp_path, kafka.bootstrap, unlocked_checkpoints=True), tmp_path) as supervisor:
        produce(kafka.bootstrap, topic, [{"n": n, "word": "w"} for n in range(4)], 2)
        reply = supervisor.start(spec, 2)
        assert reply.ok, reply.error
        assert reply.result["token"] == "2.1"
        wait_until((checkpoint / "offsets" / "0").exists, 60, "the batch to be planned")
        stopped = supervisor.stop(spec.task_id, finish_pending=True)
        assert stopped.ok, stopped.error
        assert (stopped.result["clean"], stopped.result["last_commit"]) == (True, 0)
        assert sorted(rows_of_files(tmp_path / "out" / "g1" / "task-0")["n"]) == [0, 1, 2, 3]
        assert supervisor.start(spec, 1).error_kind == "fenced"
        assert supervisor.start(spec, 2).result["token"] == "2.2"
        (checkpoint / "FENCE").write_text("3.1\nsomebody else\n")
        (checkpoint / ".FENCE.crc").unlink(missing_ok=True)
        produce(kafka.bootstrap, topic, [{"n": n, "word": "w"} for n in range(4, 8)], 2)
        assert supervisor.next_ended().error_kind == "fenced"
        jvm = jvm_pid(supervisor)
        assert runs(jvm)
        supervisor.host.kill()
        supervisor.host.kill()
        wait_gone(jvm)
        assert supervisor.host.exit_reason is ExitReason.KILLED


def test_it_must_be_allowed(spark: SparkSession, tmp_path: Path) -> None:
    mount = unique("mount")
    spark.conf.set(f"fs.viewfs.mounttable.{mount}.link./data", f"file://{tmp_path}")
    settings = SparkSettings(checkpoint_root=f"viewfs://{mount}/data/checkpoints")
    spec = task_spec("far", job_config("any", 1, {"type": "files", "path": str(tmp_path / "out")}))
    with pytest.raises(Unavailable, match="no file locks"):
        RunningTask(Runtime(spark, settings, "strict"), spec, epoch=1).claim()
    assert not (tmp_path / "checkpoints").exists()


def test_rights_to_write_are_those_of_the_file_system(spark: SparkSession, tmp_path: Path) -> None:
    """The root of a view file system takes no folders; a folder that is mounted does; a file does not."""
    mount = unique("mount")
    spark.conf.set(f"fs.viewfs.mounttable.{mount}.link./data", f"file://{tmp_path}")
    files = files_of(f"viewfs://{mount}/data", spark)
    assert files.why_not_writable(f"viewfs://{mount}/data/out/deep") is None
    assert "may not write to viewfs://" in str(files.why_not_writable(f"viewfs://{mount}/elsewhere/out"))
    (tmp_path / "file").write_text("")
    assert "data/file is not a folder" in str(files.why_not_writable(f"viewfs://{mount}/data/file/out"))


def test_a_deletion_stays_below_its_root(spark: SparkSession, tmp_path: Path) -> None:
    mount = unique("mount")
    spark.conf.set(f"fs.viewfs.mounttable.{mount}.link./data", f"file://{tmp_path}")
    for name in ("root/job", "root2", "other"):
        (tmp_path / name).mkdir(parents=True)
    root = f"viewfs://{mount}/data/root"
    for path in ("", "/", "/../other", "/job/../../other", "2"):
        with pytest.raises(Conflict, match="not below"):
            files_of(root, spark).delete(f"{root}{path}")
    files_of(f"{root}/", spark).delete(f"{root}/job/../job")
    assert sorted(each.relative_to(tmp_path).as_posix() for each in tmp_path.rglob("*")) == ["other", "root", "root2"]
