"""A backlog of files is read in batches that take about as long as asked: by one task with the source of Spark or
Delta, and by tasks with key groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.spark.redistribute.positions import task_specs
from penstock.spark.task import RunningTask, Runtime
from tests.support.spark import batch_functions
from tests.support.spark.streams import StreamJob, add_file, stream_config

FILES, ROWS = 24, 10
SLOW = {"type": "foreach_batch", "python": "tests.support.spark.batch_functions:slow"}


@pytest.mark.long
@pytest.mark.parametrize("key_groups", [1, 4], ids=["one task", "key groups"])
@pytest.mark.parametrize("kind", ["json", "delta"])
def test_batches_of_a_backlog_take_about_the_asked_time(
    runtime: Runtime, tmp_path: Path, kind: str, key_groups: int
) -> None:
    """24 files of 10 rows, each row takes a twentieth of a second, batches are to take four seconds. The first has one
    file, none takes much longer than asked, and the files are not read one by one."""
    path, rows = tmp_path / "in", FILES * ROWS
    if kind == "delta":
        runtime.spark.range(rows).repartition(FILES).write.format("delta").save(str(path))
    else:
        for file in range(FILES):
            add_file(path, [{"id": file} for _ in range(ROWS)])
    stream = {"format": kind, "path": str(path), "key_groups": key_groups, "max_files_per_batch": 1000}
    stream |= {} if kind == "delta" else {"value_schema": "id BIGINT"}
    batch_functions.sizes.clear()
    job = StreamJob(runtime, stream_config(stream, "SELECT id FROM events", SLOW, max_batch_seconds=4.0))
    task = RunningTask(runtime, task_specs(job.name, job.layout)[0], epoch=1)
    task.claim()
    task.run_until(lambda: sum(batch_functions.sizes.values()) >= rows, 120.0)
    sizes = [size for _, size in sorted(batch_functions.sizes.items()) if size]
    assert sum(sizes) == rows, sizes
    assert sizes[0] == ROWS, sizes
    assert max(sizes) <= 16 * ROWS, sizes
    assert len(sizes) <= FILES // 2, sizes
