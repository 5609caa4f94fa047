"""Rows of a stream by key columns, which every task reads, count for the task's share of the key groups."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.config.model import JobConfig
from penstock.spark.measure.own_rows import with_own_rows
from tests.support.spark.streams import stream_config

NAME = "stream:events#1"


def config(**stream: Any) -> JobConfig:
    source = {"format": "json", "path": "/in", "value_schema": "k INT", "key_groups": 8, **stream}
    return stream_config(source, "SELECT k FROM events", {"path": "/out"}, task_count=2)


def record(start: dict[str, int] | None, end: dict[str, int], rows: int = 400) -> dict[str, Any]:
    source = {"startOffset": None if start is None else {NAME: start}, "endOffset": {NAME: end}, "numInputRows": rows}
    rates = {"inputRowsPerSecond": 40.0, "processedRowsPerSecond": 80.0}
    return {"batchId": 3, "numInputRows": rows, "sources": [source], **rates}


@pytest.mark.parametrize(
    ("start", "rows"),
    [({"0": 4, "1": 4}, 100), ({"0": 4, "1": 5}, 50), (None, 100)],
)
def test_rows_by_key_are_those_of_the_key_groups_that_went_on(start: dict[str, int] | None, rows: int) -> None:
    seen = with_own_rows(record(start, {"0": 5, "1": 5}), config(key_columns=["k"]))
    assert (seen["numInputRows"], seen["sources"][0]["numInputRows"]) == (rows, rows)
    assert (seen["inputRowsPerSecond"], seen["processedRowsPerSecond"]) == (rows / 10, rows / 5)


def test_a_batch_without_rows_has_none() -> None:
    seen = with_own_rows(record({"0": 4}, {"0": 5}, rows=0), config(key_columns=["k"]))
    assert (seen["numInputRows"], seen["inputRowsPerSecond"]) == (0, 40.0)


def test_rows_by_file_and_of_topics_are_the_tasks_own() -> None:
    by_file = record({"0": 4}, {"0": 5})
    assert with_own_rows(by_file, config()) is by_file
    by_key = config(key_columns=["k"])
    for offset in (17, json.dumps(17), {"logOffset": 3}, json.dumps({"orders": {"0": 5}}), None):
        topic = {"numInputRows": 5, "sources": [{"endOffset": offset, "numInputRows": 5}]}
        assert with_own_rows(topic, by_key) is topic
