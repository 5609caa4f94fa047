"""A Spark session inside the test process, files as a stream, and a query that dies before its commit.

A host makes its own session (`penstock.spark.session`); this one is for tests of what runs inside a session.
"""

from __future__ import annotations

import json
import os
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock.config.keygroups import KeyGroupRange
from penstock.config.model import Input, JobConfig, Output, Query
from penstock.local.jars import share_dir
from penstock.spark.callbacks import guard_callbacks
from penstock.spark.gateway import keep_names
from penstock.spark.session import FIXED_SETTINGS, ONE_LOGGER_CONTEXT
from penstock.spark.settings import class_archive, class_archive_options, driver_classpath
from penstock.tasks.spec import TaskSpec
from tests.support.spark.hosts import INTERPRETED, JAVA_OPTIONS, QUICK_JVM

CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
"""Spark's own, but not its default for local folders, which forks a process for each file."""
_QUERY_TIMEOUT_S = 120
_FIRST_FILE = 1_700_000_000


def quick_jvm_settings(jars: Path, more_options: str = "") -> dict[str, str]:
    """Class path and options of a JVM that maps the class archive, as hosts do, and lives for a short time."""
    options = f"-XX:+UseSerialGC {QUICK_JVM} {' '.join(class_archive_options(class_archive(jars)))} {more_options}"
    return {"spark.driver.extraClassPath": driver_classpath(jars), JAVA_OPTIONS: options.strip()}


@contextmanager
def local_session(folder: Path, conf: Mapping[str, str] = INTERPRETED) -> Iterator[SparkSession]:
    """A host's session on two threads, with further settings; scratch files go below `folder`."""
    settings = {
        **FIXED_SETTINGS,
        # Each session leaves a folder for artifacts in the JVM's temporary folder.
        **quick_jvm_settings(share_dir() / "jars", f"-Djava.io.tmpdir={folder} {ONE_LOGGER_CONTEXT}"),
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(folder / "spark"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.streaming.pollingDelay": "50ms",
        "spark.sql.streaming.numRecentProgressUpdates": "100",
        **conf,
        "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINTS,
    }
    session = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    session.sparkContext.pythonExec = sys.executable  # as in a host; else whatever python3 the PATH has
    guard_callbacks(session.sparkContext._gateway)
    keep_names(session.sparkContext._gateway)
    SparkContext._jvm = session._jvm = session.sparkContext._gateway.jvm
    try:
        yield session
    finally:
        session.stop()


@dataclass(frozen=True)
class Feed:
    """A folder of JSON files as a stream: each file is a micro-batch."""

    folder: Path
    schema: str

    def add(self, rows: Sequence[dict[str, Any]]) -> None:
        """Adds a file of `rows`; it appears whole."""
        self.folder.mkdir(parents=True, exist_ok=True)
        number = len(list(self.folder.glob("*.json")))
        fresh = self.folder / f".{number:06}.tmp"
        fresh.write_text("".join(json.dumps(row) + "\n" for row in rows))
        # Spark reads files by their times, of which two in one tick of the kernel have the same.
        os.utime(fresh, (_FIRST_FILE + number, _FIRST_FILE + number))
        fresh.rename(self.folder / f"{number:06}.json")

    def frame(self, session: SparkSession) -> DataFrame:
        """The stream, one file a batch, oldest first."""
        reader = session.readStream.schema(self.schema).option("maxFilesPerTrigger", 1)
        return reader.json(str(self.folder))


def sink_task(output: Output, *, index: int = 0, generation: int = 1, task_count: int = 1, **config: Any) -> TaskSpec:
    """A task of a job with `output`; a sink never looks at its query and input."""
    job = JobConfig(
        query=Query(sql="SELECT * FROM feed", python=None),
        inputs={"feed": Input(topic="feed", key_groups=8, value_schema="dest string")},
        output=output,
        task_count=task_count,
        **config,
    )
    groups = KeyGroupRange(0, 8)
    return TaskSpec(
        job="job", index=index, revision=1, generation=generation, restarts=0, key_groups=groups, config=job
    )


DELAYS = [{"dest": dest, "delay": delay} for delay, dest in enumerate("ABAC")]
"""A batch of four rows of three keys."""


def delays(folder: Path) -> Feed:
    """Two batches of `DELAYS`."""
    feed = Feed(folder, "dest string, delay bigint")
    feed.add(DELAYS)
    feed.add(DELAYS)
    return feed


def run_to_end(stream: DataStreamWriter, checkpoint: Path) -> None:
    """Runs the query until its input is used up. Raises the query's error."""
    query = stream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(_QUERY_TIMEOUT_S), "the query did not come to its end in time"
    finally:
        query.stop()


def forget_last_commit(checkpoint: Path) -> int:
    """Leaves the checkpoint as a process that was killed between the sink's write and the commit; the batch's id."""
    last = max(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdigit())
    for name in (str(last), f".{last}.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)
    return last


def unique(prefix: str) -> str:
    """A name that no other test has."""
    return f"{prefix}-{uuid.uuid4().hex[:8]}"
