"""Tasks of one job that write to one output at the same moment, each with a session and a checkpoint of its own."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from pyspark.sql import SparkSession

from penstock.config.model import Output
from penstock.spark.settings import SparkSettings
from penstock.spark.sinks import writer
from tests.support.spark.session import Feed, run_to_end, sink_task

NOWHERE = SparkSettings(checkpoint_root="", kafka_bootstrap="127.0.0.1:1", connections={})
"""For sinks that need no Kafka and no connection."""


def write_at_once(spark: SparkSession, feeds: Sequence[Feed], output: Output, folder: Path) -> None:
    """A task for each feed writes all of it; the tasks make the output when each has its frame."""
    barrier = Barrier(len(feeds))

    def run(index: int) -> None:
        frame = feeds[index].frame(spark.newSession())
        barrier.wait(30)
        stream = writer(frame, sink_task(output, index=index, task_count=len(feeds)), NOWHERE)
        run_to_end(stream, folder / f"checkpoint-{index}")

    with ThreadPoolExecutor(len(feeds)) as threads:
        list(threads.map(run, range(len(feeds))))
