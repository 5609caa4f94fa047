"""Tables that refresh, of jobs that are rescaled and saved: a batch that has begun reads the version that it began
with, and what begins later reads a newer one. An old owner that goes on: `integration/spark/test_s3_tables.py`."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from penstock.spark.task import Runtime
from tests.integration.streams.test_table_versions import SQL, write_names
from tests.support.spark.session import forget_last_commit
from tests.support.spark.streams import StreamJob, add_file, stream_config

pytestmark = pytest.mark.long
KEYS = 12


def make_job(runtime: Runtime, folder: Path, out: str) -> StreamJob:
    """Two tasks, each of its key groups of a folder."""
    source = {"path": str(folder / "events"), "value_schema": "k BIGINT, v BIGINT"}
    stream = {"format": "json", **source, "key_groups": 8, "key_columns": ["k"]}
    tables = {"names": {"path": str(folder / "names"), "format": "delta"}}
    return StreamJob(runtime, stream_config(stream, SQL, {"path": str(folder / out)}, tables=tables, task_count=2))


def add(folder: Path, first: int) -> None:
    """A row of each key, with a value of its own."""
    add_file(folder / "events", [{"k": key, "v": first + key} for key in range(KEYS)])


def dies_in_a_batch(job: StreamJob, folder: Path) -> set[int]:
    """Task 0 plans a batch with the first version, and neither writes nor commits it. The values of the batch."""
    add(folder, 100)
    write_names(job.runtime.spark, folder / "names", "first", count=KEYS)
    job.read_to(2, 0)
    rows = job.rows()
    assert {name for _, name in rows} == {"first"}
    forget_last_commit(job.checkpoint)
    shutil.rmtree(folder / "out")
    write_names(job.runtime.spark, folder / "names", "second", count=KEYS)
    return {value for value, _ in rows}


def rows_with(first: set[int], *beginnings: int) -> list[tuple[int, str]]:
    """Each row once: those values that read the first version, and all others, the second."""
    values = [begin + key for begin in beginnings for key in range(KEYS)]
    return [(value, "first" if value in first else "second") for value in values]


def test_a_rescale_finishes_a_batch_with_the_version_that_it_began_with(runtime: Runtime, tmp_path: Path) -> None:
    """1. A task dies in a batch. 2. The table gets another version, which the other task reads. 3. A rescale finishes
    the batch with the first version. 4. Three tasks go on with the second: each row is there once."""
    job = make_job(runtime, tmp_path, "out")
    first = dies_in_a_batch(job, tmp_path)
    job.read_to(2, 1)
    assert 0 < len(first) < KEYS
    assert job.rows() == [row for row in rows_with(first, 100) if row[0] not in first]
    assert job.rescale(task_count=3).settled == 1
    assert job.rows() == rows_with(first, 100)
    add(tmp_path, 200)
    job.read_to(3)
    assert job.rows() == rows_with(first, 100, 200)


def test_a_job_that_begins_with_a_savepoint_reads_the_newest_version(runtime: Runtime, tmp_path: Path) -> None:
    """1. A task dies in a batch. 2. The table gets another version. 3. A savepoint is taken: the batch is not in it.
    4. Another job begins with it, and has these rows, once, with the second version. 5. The job itself repeats the
    batch with the first one."""
    job = make_job(runtime, tmp_path, "out")
    first = dies_in_a_batch(job, tmp_path)
    job.save("s")
    clone = make_job(runtime, tmp_path, "clone")
    clone.adopt(job, "s")
    clone.read_to(2)
    assert clone.rows() == rows_with(set(), 100)
    job.read_to(2)
    assert job.rows() == rows_with(first, 100)
