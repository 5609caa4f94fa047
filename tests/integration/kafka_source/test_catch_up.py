"""The source finds its way through a backlog: by index, field and samples, through transactions and bogus times."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.local.kafka import EmbeddedKafka
from tests.support.kafka.event_topics import topic_of
from tests.support.kafka.windowed import catch_up, read, windowed

_TEN_YEARS = 10 * 365 * 86_400_000
# Four hours; the second partition ends after one, the third begins after three.
_TIMES = {
    0: range(0, 14_400_000, 9_000),
    1: range(0, 3_600_000, 3_000),
    2: range(10_800_000, 14_400_000, 3_000),
    3: range(0, 14_400_000, 20_000),
}


READ_COMMITTED = {"kafka.isolation.level": "read_committed"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "how"),
    [
        ({}, {}),  # the loss table of `tests.bench` says so too
        ({"balanceField": "/at"}, {"record_millis": 1_795_000_000_000}),
        ({"kafka.isolation.level": "read_committed"}, {"rows_per_transaction": 300}),
    ],
    ids=["index", "field", "transactions"],
)
def test_no_row_is_late(spark: SparkSession, kafka: EmbeddedKafka, tmp_path: Path, options, how):
    topic = topic_of(kafka.bootstrap, _TIMES, **how)
    own = catch_up(windowed(read(spark, kafka.bootstrap, topic, maxOffsetsPerTrigger=900, **options)), tmp_path / "own")
    assert own.rows_lost(chain(*_TIMES.values())) == 0
    assert sum(own.rows_by_batch()) == sum(map(len, _TIMES.values()))
    assert max(own.rows_by_batch()) <= 900
    assert len(own.rows_by_batch()) < 9
