"""Windowed counts over topics of `tests.support.kafka.event_topics`, and how many rows they lost as late."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tests.support.kafka.event_topics import T0_MILLIS
from tests.support.spark.session import unique

WINDOW_MILLIS = 300_000
_TIMEOUT_S = 120


def read(
    session: SparkSession, bootstrap: str, topic: str, source: str = "penstock-kafka", **options: Any
) -> DataFrame:
    """A stream of the topic from its beginning, by the format `source`."""
    reader = session.readStream.format(source).option("kafka.bootstrap.servers", bootstrap)
    chosen = {"subscribe": topic, "startingOffsets": "earliest", "kafka.fetch.max.wait.ms": "10", **options}
    return reader.options(**{name: str(value) for name, value in chosen.items()}).load()


def windowed(records: DataFrame, delay: str = "10 minutes") -> DataFrame:
    """Rows by window of five minutes: columns `start` (milliseconds after T0) and `rows`."""
    at = F.timestamp_seconds(F.get_json_object(F.col("value").cast("string"), "$.at").cast("double")).alias("at")
    counts = records.select(at).withWatermark("at", delay).groupBy(F.window("at", "5 minutes")).count()
    start = (F.unix_millis("window.start") - T0_MILLIS).alias("start")
    return counts.select(start, F.col("count").alias("rows"))


@dataclass(frozen=True)
class CatchUp:
    """What a query did from the beginning of its topic to the end."""

    emitted: Mapping[int, int]
    watermark_millis: int
    progress: list[dict[str, Any]]

    def rows_lost(self, times: Iterable[int]) -> int:
        """Rows that belong to a window which the watermark has closed, and were not counted in it."""
        closed = self.watermark_millis - WINDOW_MILLIS
        due = Counter(start for at in times if (start := at // WINDOW_MILLIS * WINDOW_MILLIS) <= closed)
        return sum(due.values()) - sum(self.emitted.values())

    def rows_by_batch(self) -> list[int]:
        return [batch["numInputRows"] for batch in self.progress if batch["numInputRows"] > 0]

    def metrics(self) -> list[dict[str, str]]:
        return [batch["sources"][0].get("metrics") or {} for batch in self.progress]


def catch_up(frame: DataFrame, checkpoint: Path) -> CatchUp:
    """Runs the windowed count over all that there is, in batches. Raises the query's error."""
    name = unique("counts").replace("-", "_")
    stream = frame.writeStream.format("memory").queryName(name).outputMode("append")
    query = stream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(_TIMEOUT_S), "the query did not come to its end in time"
        progress = [json.loads(record.json) for record in query.recentProgress]
    finally:
        query.stop()
    rows = frame.sparkSession.table(name).collect()
    frame.sparkSession.catalog.dropTempView(name)
    return CatchUp(
        emitted={row["start"]: row["rows"] for row in rows},
        watermark_millis=watermark_millis(progress[-1]) - T0_MILLIS,
        progress=progress,
    )


class Emitted:
    """The windows that a query emits in append mode, over all its restarts: a window that comes twice is an error."""

    def __init__(self) -> None:
        self._batches: dict[int, dict[int, int]] = {}

    def start(self, frame: DataFrame, checkpoint: Path, interval: str) -> StreamingQuery:
        return self._stream(frame, checkpoint).trigger(processingTime=interval).start()

    def run_to_end(self, frame: DataFrame, checkpoint: Path) -> None:
        query = self._stream(frame, checkpoint).trigger(availableNow=True).start()
        assert query.awaitTermination(_TIMEOUT_S), "the query did not come to its end in time"

    def counts(self) -> dict[int, int]:
        """Rows by the window's start (milliseconds since 1970)."""
        windows = [item for batch in self._batches.values() for item in batch.items()]
        assert len(dict(windows)) == len(windows), "a window was emitted twice"
        return dict(windows)

    def _stream(self, frame: DataFrame, checkpoint: Path) -> DataStreamWriter:
        stream = frame.writeStream.outputMode("append").option("checkpointLocation", str(checkpoint))
        return stream.foreachBatch(self._take)

    def _take(self, batch: DataFrame, number: int) -> None:
        self._batches[number] = {row["start"] + T0_MILLIS: row["rows"] for row in batch.collect()}


def counts_of(session: SparkSession, checkpoint: Path) -> dict[int, int]:
    """The windows that the query of this checkpoint still holds: rows by the window's start (since 1970)."""
    state = session.read.format("statestore").load(str(checkpoint))
    rows = state.select(F.unix_millis("key.window.start").alias("start"), F.col("value.count").alias("rows")).collect()
    return {row["start"]: row["rows"] for row in rows}


def watermark_millis(progress: Mapping[str, Any]) -> int:
    """The watermark of a progress record, in milliseconds since 1970."""
    text = progress["eventTime"]["watermark"]
    return int(datetime.fromisoformat(text).astimezone(UTC).timestamp() * 1000)
