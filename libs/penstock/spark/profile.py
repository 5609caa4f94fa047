"""A staging run: the query of a job's first task runs for a while, and its results are thrown away.

The run has a checkpoint of its own in a folder of the host, which goes with the run or with the host. It writes to
Spark's sink `noop`: no output, no dead letters, no marks. Malformed records are rows of nulls.
"""

from __future__ import annotations

import json
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from penstock.control.errors import BrokenTask
from penstock.spark.files import LocalFiles
from penstock.spark.measure.rate_of_run import is_at_the_end, profile_of
from penstock.spark.paths import require_allowed_paths
from penstock.spark.query import result_of
from penstock.spark.session import detach_unused_listeners
from penstock.spark.sources import read_inputs
from penstock.spark.task import Runtime
from penstock.tasks.profile import ProfileReport, ProfileRequest, staged
from penstock.tasks.spec import key_group_ranges

_LOOK_SECONDS = 1
_RECORDS_KEPT = 10_000


def profile(runtime: Runtime, request: ProfileRequest) -> ProfileReport:
    """Runs the query for `request.seconds`, or until its inputs are read; what it got through.

    Raises BrokenTask when there was no row to read, or the query cannot run as written; Spark's errors when it fails;
    what `before_claim` raises when the work is cancelled or the lease is over.
    """
    runtime.before_claim()
    config, settings = staged(request.config, request.seconds), runtime.settings
    if config.streams:
        raise BrokenTask(
            "streams: a profile reads topics; that of a job with streams is not there", rule="profile_inputs"
        )
    require_allowed_paths(config, settings.path_roots)
    part = key_group_ranges(config)[0]
    with TemporaryDirectory(prefix="profile-", dir=settings.spark_local_dir, ignore_cleanup_errors=True) as folder:
        checkpoint = f"{folder}/g1/task-0"
        token = LocalFiles(folder).claim(checkpoint, 1, runtime.holder)
        session = runtime.session(config, checkpoint, token)
        session.conf.set("spark.sql.streaming.numRecentProgressUpdates", _RECORDS_KEPT)
        inputs = read_inputs(session, config, part, settings)
        frame = result_of(session, inputs, config, settings)
        runtime.placements.require(frame, inputs, config)
        records, read_all = _run(runtime, frame, request, checkpoint)
    report = profile_of(records, read_all=read_all, key_groups=len(part.members()))
    if report.rows_per_second is None:
        topics = ", ".join(sorted(source.full_topic for source in config.inputs.values()))
        raise BrokenTask(f"inputs: no row came from {topics} within {request.seconds} s: there is no rate to measure")
    return report


def _run(
    runtime: Runtime, frame: DataFrame, request: ProfileRequest, checkpoint: str
) -> tuple[list[dict[str, Any]], bool]:
    """The progress records of a run, and whether it read all."""
    session, pool, query = frame.sparkSession, runtime.pools.take(), None
    try:
        session.sparkContext.setLocalProperty("spark.scheduler.pool", pool)
        stream = frame.writeStream.format("noop").outputMode(request.config.output_mode)
        stream = stream.option("checkpointLocation", checkpoint).queryName(f"profile {request.job} {request.number}")
        query = stream.trigger(processingTime="0 seconds").start()
        read_all = _wait(runtime, query, request.seconds)
        return _records(query), read_all
    finally:
        if query is not None:
            query.stop()
        runtime.pools.give_back(pool)
        detach_unused_listeners(session, query)


def _wait(runtime: Runtime, query: StreamingQuery, seconds: float) -> bool:
    """Waits for the end of the time, or of the inputs; whether these were read. Raises the error of the query."""
    until = monotonic() + seconds
    while monotonic() < until:
        query.awaitTermination(_LOOK_SECONDS)
        runtime.before_claim()
        records = _records(query)
        rows = sum(record["numInputRows"] for record in records)
        runtime.report(f"{rows:,} rows in {len(records)} batches")
        if rows and is_at_the_end(records[-1]):
            return True
    return False


def _records(query: StreamingQuery) -> list[dict[str, Any]]:
    """The records of all batches."""
    return [json.loads(each.json()) for each in query._jsq.recentProgress()]
