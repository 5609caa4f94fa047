"""What a Delta table's properties say of the jobs that write it, and which partitions a merge names."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.types import DateType, IntegerType, StringType, StructType, TimestampType

from penstock.config.model import DeltaOutput
from penstock.spark.sinks.delta_merge import named_partitions
from penstock.spark.sinks.delta_writers import Notes, notes_of, read_notes
from tests.support.spark.hosts import job_config

NONE: dict[str, bool] = {}


def noted(job: str, mode: str = "append", **output: Any) -> dict[str, str]:
    written = DeltaOutput(path="/t", **output)
    config = job_config(job, 8, {"type": "delta", "path": "/t", **output}, output_mode=mode)
    return notes_of(job, config, written)


@pytest.mark.parametrize(
    ("properties", "notes"),
    [
        ({}, Notes(None, None, NONE, None)),
        (noted("hourly"), Notes(None, "hourly", NONE, None)),
        (noted("hourly", "complete"), Notes("hourly", None, NONE, None)),
        ({"penstock.appended": "true"}, Notes(None, "true", NONE, None)),
        (
            noted("a", upsert_columns=("k", "day")) | noted("b", upsert_columns=("day", "k"), allow_other_writers=True),
            Notes(None, None, {"a": False, "b": True}, ("day", "k")),
        ),
    ],
    ids=["none", "appended", "replaced", "of an earlier release", "by key"],
)
def test_notes_are_read_as_they_were_written(properties: dict[str, str], notes: Notes) -> None:
    assert read_notes(properties | {"delta.minReaderVersion": "1"}) == notes


def test_a_merge_names_partitions_of_the_key_whose_values_python_keeps() -> None:
    schema = StructType().add("Day", DateType()).add("at", TimestampType())
    schema = schema.add("shard", IntegerType()).add("k", StringType())
    output = DeltaOutput(path="/t", partition_columns=("day", "at", "shard"), upsert_columns=("k", "Day", "at"))
    assert named_partitions(output, schema) == ["day"]
