"""Streams that several tasks read: exact over deaths, rescales and savepoints, compared with a batch query."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from penstock.spark.task import Runtime
from tests.support.spark.session import unique
from tests.support.spark.streams import StreamJob, add_file, stream_config

SCHEMA = "k BIGINT, v BIGINT, at TIMESTAMP"
SUMS = "SELECT k, count(*) AS c, sum(v) AS s FROM events GROUP BY k"
BY_KEY = {"key_groups": 8, "key_columns": ["k"]}


def rows(number: int) -> list[dict[str, Any]]:
    """The rows of a file: 40 of them, with event times of its hour."""
    return [{"k": n % 11, "v": number * 40 + n, "at": f"2026-01-01T{number:02}:{n % 60:02}:00Z"} for n in range(40)]


def append(runtime: Runtime, kind: str, path: Path, number: int) -> None:
    if kind == "json":
        return add_file(path, rows(number))
    lines = [(row["k"], row["v"], row["at"]) for row in rows(number)]
    frame = runtime.spark.createDataFrame(lines, "k BIGINT, v BIGINT, at STRING").coalesce(1)
    return frame.withColumn("at", F.to_timestamp("at")).write.format(kind).mode("append").save(str(path))


def make_job(runtime: Runtime, kind: str, folder: Path, sql: str, stream: dict[str, Any], **more: Any) -> StreamJob:
    source = {"format": kind, "path": str(folder / "in"), **stream}
    if kind != "delta":
        source["value_schema"] = SCHEMA
    output = {"type": "postgres", "table": unique("sums").replace("-", "_"), "upsert_columns": ["k"]}
    return StreamJob(runtime, stream_config(source, sql, more.pop("output", output), **more))


def sums(numbers: range) -> list[tuple[int, int, int]]:
    found: dict[int, list[int]] = {}
    for row in (row for number in numbers for row in rows(number)):
        found.setdefault(row["k"], []).append(row["v"])
    return sorted((k, len(values), sum(values)) for k, values in found.items())


@pytest.mark.parametrize("kind", ["json", "delta"])
def test_sums_by_key_are_exact(runtime: Runtime, tmp_path: Path, kind: str) -> None:
    for number in range(3):
        append(runtime, kind, tmp_path / "in", number)
    job = make_job(runtime, kind, tmp_path, SUMS, BY_KEY, task_count=3, output_mode="update")
    job.read_to(4)
    assert job.rows() == sums(range(3))
    job.rescale(task_count=2)
    append(runtime, kind, tmp_path / "in", 3)
    job.read_to(5)
    assert job.rows() == sums(range(4))
