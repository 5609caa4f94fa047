"""A task whose checkpoint is on HDFS, whose renames replace nothing: killed in a batch, resumed, fenced, and exact."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.control.errors import Fenced
from penstock.control.process import wait_until
from penstock.local.kafka import EmbeddedKafka
from penstock.spark.hadoop import CheckpointWriter, HadoopFiles
from penstock.spark.settings import SparkSettings
from penstock.spark.task import Runtime
from tests.support.hdfs import hdfs
from tests.support.spark.hosts import (
    job_config,
    make_topic,
    produce,
    rows_of_files,
    running_host,
    settings_for,
    slow_query,
    task_spec,
)
from tests.support.spark.session import unique

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with hdfs(tmp_path_factory.mktemp("hdfs")) as found:
        yield found


def on_hdfs(folder: Path, bootstrap: str, root: str, **more: Any) -> SparkSettings:
    return settings_for(folder, bootstrap, boundary_wait_seconds=0.0, **more).model_copy(
        update={"checkpoint_root": root}
    )


def test_a_file_is_replaced_though_a_rename_replaces_nothing(spark: SparkSession, address: str) -> None:
    """1. A file is written again: the new content is there, and no temporary file. 2. An old owner writes nothing."""
    root = f"{address}/{unique('root')}"
    runtime = Runtime(spark, SparkSettings(checkpoint_root=root), "host")
    checkpoint, config = f"{root}/job/g1/task-0", job_config("any", 1, {"type": "files", "path": "/out"})
    old = runtime.claim(checkpoint, 1)
    writer = CheckpointWriter(runtime.session(config, checkpoint, old), checkpoint)
    for content in (b"first", b"second"):
        writer.write("state/0/0/1.delta", content)
        writer.write("offsets/0", b"plan")
    files = HadoopFiles(spark)
    assert files.read(f"{checkpoint}/state/0/0/1.delta") == b"second"
    assert files.names(f"{checkpoint}/state/0/0") == ["1.delta"]
    new = runtime.claim(checkpoint, 2)
    for name in ("offsets/1", "state/0/0/2.delta"):
        with pytest.raises(Exception, match=f"FENCED: token {old} was replaced by {new}"):
            writer.write(name, b"late")
    with pytest.raises(Fenced):
        runtime.claim(checkpoint, 1)
    assert files.names(f"{checkpoint}/offsets") == ["0"]


def test_a_task_is_killed_in_a_batch_and_resumed(kafka: EmbeddedKafka, tmp_path: Path, address: str) -> None:
    """1. A host is killed in mid-batch. 2. Another one repeats the batch and reads on. Every row is there once."""
    topic, root = make_topic(kafka.bootstrap, 2), f"{address}/{unique('root')}"
    config = job_config(topic, 2, {"type": "files", "path": str(tmp_path / "out")}, **slow_query(tmp_path, 300))
    spec, settings = task_spec("far", config), on_hdfs(tmp_path, kafka.bootstrap, root)
    with running_host("one", settings, tmp_path) as one:
        assert one.start(spec, 1).ok
        produce(kafka.bootstrap, topic, [{"n": n, "word": "w"} for n in range(8)], 2)
        wait_until(lambda: (tmp_path / "out" / "g1" / "task-0" / "_spark_metadata").exists(), 60, "a first batch")
    with running_host("two", settings, tmp_path) as two:
        reply = two.start(spec, 2)
        assert reply.ok, reply.error
        produce(kafka.bootstrap, topic, [{"n": n, "word": "w"} for n in range(8, 12)], 2)
        two.wait_for_records(spec.task_id, 12)
        stopped = two.stop(spec.task_id, finish_pending=True)
        assert (stopped.ok, stopped.result["clean"]) == (True, True)
    assert sorted(rows_of_files(tmp_path / "out" / "g1" / "task-0")["n"]) == list(range(12))
