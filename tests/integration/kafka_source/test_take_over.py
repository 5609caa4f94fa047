"""A stateful query goes from Spark's source to Penstock's and back on one checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.control.process import wait_until
from penstock.local.kafka import EmbeddedKafka
from tests.support.kafka.event_topics import T0_MILLIS, topic_of
from tests.support.kafka.windowed import WINDOW_MILLIS, Emitted, counts_of, read, windowed

_TIMES = {0: range(0, 3_600_000, 2_000), 1: range(0, 3_600_000, 3_000), 2: range(0, 3_600_000, 6_000)}
_ROWS = sum(map(len, _TIMES.values()))


@pytest.mark.long
def test_there_and_back_equals_an_undisturbed_run(spark: SparkSession, kafka: EmbeddedKafka, tmp_path: Path):
    topic, emitted = topic_of(kafka.bootstrap, _TIMES), Emitted()
    for stage, source in enumerate(["kafka", "penstock-kafka"]):
        frame = windowed(read(spark, kafka.bootstrap, topic, source, maxOffsetsPerTrigger=600), "1 hour")
        query = emitted.start(frame, tmp_path / "moved", "0 seconds")
        try:
            wait_until(lambda rows=600 * (stage + 1): _rows_read(tmp_path) >= rows, 60, f"{source} to read")
        finally:
            query.stop()
    emitted.run_to_end(windowed(read(spark, kafka.bootstrap, topic, "kafka"), "1 hour"), tmp_path / "moved")
    assert _rows_read(tmp_path) == _ROWS
    undisturbed = Emitted()
    whole = windowed(read(spark, kafka.bootstrap, topic, "kafka", maxOffsetsPerTrigger=600), "1 hour")
    undisturbed.run_to_end(whole, tmp_path / "undisturbed")
    assert emitted.counts() == undisturbed.counts()
    left = counts_of(spark, tmp_path / "moved")
    assert left == counts_of(spark, tmp_path / "undisturbed")
    assert sum(left.values()) + sum(emitted.counts().values()) == _ROWS
    assert set(left) | set(emitted.counts()) == {T0_MILLIS + start for start in range(0, 3_600_000, WINDOW_MILLIS)}


def _rows_read(folder: Path) -> int:
    commits = [int(path.name) for path in (folder / "moved" / "commits").glob("*") if path.name.isdigit()]
    if not commits:
        return 0
    (offsets,) = json.loads((folder / "moved" / "offsets" / str(max(commits))).read_text().splitlines()[2]).values()
    return sum(offsets.values())
