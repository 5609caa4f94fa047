"""Streams from Delta tables and folders: exact over a death, a savepoint and a restore, compared with a batch query."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from penstock.control.errors import BrokenTask
from penstock.spark.analysis.analyse import analyse
from penstock.spark.failures import failure_of
from penstock.spark.task import Runtime
from tests.support.spark.session import forget_last_commit, unique
from tests.support.spark.streams import StreamJob, add_file, stream_config

SUMS = "SELECT k, count(*) AS c, sum(v) AS s FROM events GROUP BY k"
SCHEMA = "k BIGINT, v BIGINT"
UPSERT = {"output_mode": "update"}
CSV = {"delimiter": ";", "quote": "'", "null_value": "NULL", "comment": "#"}
WRITTEN = {"csv": {"sep": ";", "quote": "'", "nullValue": "NULL", "header": "true"}}
"""The same in Spark's words."""


def append(runtime: Runtime, kind: str, path: Path, batch: int) -> None:
    """A file of 40 rows."""
    rows: list[dict[str, int | None]] = [{"k": n % 7, "v": n} for n in range(batch * 40, batch * 40 + 40)]
    if kind == "csv":
        rows[0]["v"] = None
    if kind == "json":
        return add_file(path, rows)
    frame = runtime.spark.createDataFrame([tuple(row.values()) for row in rows], SCHEMA).coalesce(1)
    return frame.write.format(kind).options(**WRITTEN.get(kind, {})).mode("append").save(str(path))


def make_job(runtime: Runtime, kind: str, folder: Path, **stream: Any) -> StreamJob:
    source = {"format": kind, "path": str(folder / "in"), **stream}
    if kind != "delta":
        source["value_schema"] = SCHEMA
    output = {"type": "postgres", "table": unique("sums").replace("-", "_"), "upsert_columns": ["k"]}
    return StreamJob(runtime, stream_config(source, SUMS, output, **UPSERT))


def answer(runtime: Runtime, kind: str, path: Path, least: int = 0) -> list[tuple[Any, ...]]:
    reader = runtime.spark.read.format(kind).options(**WRITTEN.get(kind, {}))
    frame = (
        (reader if kind == "delta" else reader.schema(SCHEMA)).load(str(path)).where(f"coalesce(v, {least}) >= {least}")
    )
    return sorted(map(tuple, frame.groupBy("k").agg(F.count("*"), F.sum("v")).collect()))


@pytest.mark.parametrize(
    ("kind", "stream", "least"),
    [
        pytest.param("delta", {}, 0, marks=pytest.mark.long),
        ("json", {}, 0),
        pytest.param("parquet", {}, 0, marks=pytest.mark.long),
        pytest.param("csv", {"csv": CSV}, 0, marks=pytest.mark.long),
        pytest.param("delta", {"starting_version": 1}, 40, marks=pytest.mark.long),
    ],
)
def test_a_stream_is_read_exactly_once(
    runtime: Runtime, tmp_path: Path, kind: str, stream: dict[str, Any], least: int
) -> None:
    """1. Two batches; the task dies before the commit of the second. 2. The batch runs again. 3. A savepoint; a further
    batch. 4. The savepoint is restored with two threads: what came after it is read again, once."""
    path = tmp_path / "in"
    for batch in range(2 + bool(least)):
        append(runtime, kind, path, batch)
    job = make_job(runtime, kind, tmp_path, **stream)
    job.run(1)
    assert forget_last_commit(job.checkpoint) == 1
    job.run(1)
    job.save("s")
    append(runtime, kind, path, 3)
    job.run(2)
    assert job.rows() == answer(runtime, kind, path, least)
    assert job.restore("s", threads_per_task=2).state_rows == 7
    append(runtime, kind, path, 4)
    job.run(2)
    assert job.rows() == answer(runtime, kind, path, least)


@pytest.mark.long
def test_a_new_generation_goes_on_where_the_old_one_was(runtime: Runtime, tmp_path: Path) -> None:
    """Before the first batch, and after it."""
    append(runtime, "json", tmp_path / "in", 0)
    job = make_job(runtime, "json", tmp_path)
    job.rescale(threads_per_task=2)
    job.run(0)
    job.rescale(threads_per_task=3)
    append(runtime, "json", tmp_path / "in", 1)
    job.run(1)
    assert job.rows() == answer(runtime, "json", tmp_path / "in")


def test_an_analysis_names_what_is_wrong_with_a_stream(runtime: Runtime, tmp_path: Path) -> None:
    """A missing folder, no Delta table, a file that a link leads to outside."""
    root = tmp_path / "root"
    append(runtime, "json", root.parent / "elsewhere", 0)
    root.mkdir()
    (root / "in").mkdir()
    (root / "in" / "0.json").symlink_to(tmp_path / "elsewhere" / "0.json")
    settings = runtime.settings.model_copy(update={"path_roots": (str(root),)})

    def problems(kind: str, name: str) -> str:
        config = make_job(runtime, kind, root).config
        stream = config.streams["events"].model_copy(update={"path": str(root / name)})
        found = analyse(runtime.spark, settings, "job", config.model_copy(update={"streams": {"events": stream}}))
        return "; ".join(f"{each.field} {each.detail}" for each in found.problems)

    assert "there is no folder" in problems("json", "none")
    assert "there is no Delta table" in problems("delta", "in")
    assert "may not use" in problems("json", "in")
    (root / "in" / "0.json").unlink()
    assert problems("json", "in") == ""


@pytest.mark.long
def test_a_malformed_line_names_its_file(runtime: Runtime, tmp_path: Path) -> None:
    """Also what Spark read of it, and the value that does not fit."""
    add_file(tmp_path / "in", [{"k": "a", "v": 1}])
    add_file(tmp_path / "in", [{"k": "b", "v": 2}, {"k": "c", "v": "two"}])
    source = {"format": "json", "path": str(tmp_path / "in"), "value_schema": "k STRING, v INT"}
    job = StreamJob(runtime, stream_config(source, "SELECT k, v FROM events", {"path": str(tmp_path / "out")}))
    with pytest.raises(Exception, match="STREAM_FAILED") as failed:
        job.run(until_batch=1)
    error = failure_of(failed.value).error
    assert error.startswith(f"a line of the file file://{tmp_path}/in/1.json is malformed, read as [c,null]: [CANNOT")
    assert "the value two of the JSON token" in error


@pytest.mark.long
def test_files_of_another_encoding_with_rows_of_several_lines(runtime: Runtime, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_bytes('k,v\n"é\nand more",1\nü,2\n'.encode("utf-16"))
    csv = {"encoding": "UTF-16", "multi_line": True}
    source = {"format": "csv", "path": str(tmp_path / "in"), "value_schema": "k STRING, v INT", "csv": csv}
    job = StreamJob(runtime, stream_config(source, "SELECT k, v FROM events", {"path": str(tmp_path / "out")}))
    job.run(until_batch=0)
    assert job.rows() == [("é\nand more", 1), ("ü", 2)]


@pytest.mark.long
def test_rows_are_made_for_trying_things_out(runtime: Runtime, tmp_path: Path) -> None:
    """And a task whose table is gone says so."""
    rate = {"format": "rate", "rows_per_second": 5}
    made = stream_config(rate, "SELECT value, timestamp FROM events", {"path": str(tmp_path / "out")})
    stream = made.streams["events"].model_copy(update={"max_files_per_batch": 1000})
    job = StreamJob(runtime, made.model_copy(update={"streams": {"events": stream}}))
    job.run(1)
    values = [row[0] for row in job.rows()]
    assert values == list(range(len(values))) != []
    with pytest.raises(BrokenTask, match=r"streams\.events\.path: there is no Delta table"):
        make_job(runtime, "delta", tmp_path).run(0)
