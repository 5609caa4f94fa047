"""Tables that refresh: one version for each batch, the same one when the batch is repeated."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.control.errors import BrokenTask
from penstock.spark.task import Runtime
from tests.support.spark.session import forget_last_commit
from tests.support.spark.streams import StreamJob, add_file, stream_config

SQL = "SELECT v, name FROM events JOIN names USING (k)"


def write_names(spark: SparkSession, path: Path, name: str, *more: str, count: int = 3) -> None:
    frame = spark.range(count).selectExpr("id AS k", f"'{name}' AS name", *more)
    frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(str(path))


def make_job(runtime: Runtime, folder: Path, sql: str = SQL, **table: Any) -> StreamJob:
    stream = {"format": "json", "path": str(folder / "events"), "value_schema": "k BIGINT, v BIGINT"}
    tables = {"names": {"path": str(folder / "names"), "format": "delta"} | table}
    return StreamJob(runtime, stream_config(stream, sql, {"path": str(folder / "out")}, tables=tables))


def add(folder: Path, value: int) -> None:
    add_file(folder / "events", [{"k": 1, "v": value}])


def die_before_commit(job: StreamJob, folder: Path) -> None:
    """The last batch is planned and neither written nor committed. The output begins anew."""
    forget_last_commit(job.checkpoint)
    shutil.rmtree(folder / "out")


@pytest.mark.long
def test_a_repeated_batch_reads_the_version_that_it_began_with(runtime: Runtime, tmp_path: Path) -> None:
    """1. A batch is planned, and the task dies. 2. The table gets another version, with one more column. 3. The batch
    runs again with the first version; the next batch has the newer one. 4. The older note is gone."""
    add(tmp_path, 1)
    write_names(runtime.spark, tmp_path / "names", "first")
    job = make_job(runtime, tmp_path)
    job.run(0)
    assert job.rows() == [(1, "first")]
    die_before_commit(job, tmp_path)
    write_names(runtime.spark, tmp_path / "names", "second", "2 AS more")
    add(tmp_path, 2)
    job.run(1)
    assert job.rows() == [(1, "first"), (2, "second")]
    assert [path.name for path in (job.checkpoint / "tables").iterdir() if path.name[0].isdigit()] == ["1-1.2"]


@pytest.mark.long
def test_a_version_that_is_gone_is_named_and_can_be_given_up(runtime: Runtime, tmp_path: Path) -> None:
    """1. A task dies before a commit. 2. The table is made again: another id. 3. The start is refused and says how to
    go on. 4. So it is done."""
    add(tmp_path, 1)
    write_names(runtime.spark, tmp_path / "names", "first")
    job = make_job(runtime, tmp_path)
    job.run(0)
    die_before_commit(job, tmp_path)
    note = job.checkpoint / "tables" / "0-1.1"
    noted = json.loads(note.read_text())
    note.write_text(json.dumps({"names": noted["names"].replace('"id":"', '"id":"other-')}))
    with pytest.raises(BrokenTask, match=f"tables.names.path: .*was made again.*delete .*{note}"):
        job.run(0)
    note.unlink()
    job.run(0)
    assert job.rows() == [(1, "first")]


@pytest.mark.long
def test_a_folder_has_the_files_of_its_batch(runtime: Runtime, tmp_path: Path) -> None:
    """1. A batch with a list of one file; the task dies before its commit. 2. There is a second file. 3. The batch runs
    again without it, the next batch with it. 4. A file of the list of a repeated batch is gone: the start names it."""
    (tmp_path / "names").mkdir()
    (tmp_path / "names" / "1.csv").write_text("k,name\n1,first\n")
    csv = {"format": "csv", "table_schema": "k BIGINT, name STRING", "refresh_seconds": 0}
    add(tmp_path, 1)
    job = make_job(runtime, tmp_path, **csv)
    job.run(0)
    die_before_commit(job, tmp_path)
    (tmp_path / "names" / "2.csv").write_text("k,name\n1,second\n")
    add(tmp_path, 2)
    job.run(1)
    assert job.rows() == [(1, "first"), (2, "first"), (2, "second")]
    die_before_commit(job, tmp_path)
    (tmp_path / "names" / "2.csv").unlink()
    with pytest.raises(BrokenTask, match=r"cannot read the version that it began with: .*2\.csv.*delete"):
        job.run(1)


@pytest.mark.long
def test_a_task_ends_at_other_columns_and_goes_on(runtime: Runtime, tmp_path: Path) -> None:
    """1. A batch is to be repeated. 2. A column gets another type. 3. The repeated batch is right; the task ends before
    the next one. 4. The next start reads the columns anew."""
    add(tmp_path, 1)
    write_names(runtime.spark, tmp_path / "names", "first", "2 AS more")
    job = make_job(runtime, tmp_path, "SELECT v, name, CAST(more AS INT) FROM events JOIN names USING (k)")
    job.run(0)
    die_before_commit(job, tmp_path)
    write_names(runtime.spark, tmp_path / "names", "second", "'3' AS more")
    add(tmp_path, 2)
    with pytest.raises(PySparkException, match="the column more is STRING now, and was INT"):
        job.run(1)
    job.run(1)
    assert job.rows() == [(1, "first", 2), (2, "second", 3)]
