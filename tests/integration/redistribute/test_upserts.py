"""A Delta table by key: what is in it after kills, a rescale and a restore is what an unsplit run merges."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from penstock.spark.redistribute.engine import redistribute
from penstock.spark.savepoint.take import take
from penstock.spark.task import Runtime
from penstock.tasks.redistribution import RedistributionRequest, SavepointName
from penstock.tasks.savepoint import SavepointRequest
from tests.support.spark.redistribution import Events, Job, job_config
from tests.support.spark.session import forget_last_commit

SUM = "SELECT k, count(*) AS c, sum(v) AS s FROM events GROUP BY k"
BY_PART = "SELECT k, part, count(*) AS c, sum(v) AS s FROM events GROUP BY k, part"


def make_job(runtime: Runtime, events: Events, table: Path, *, by_part: bool, **more: Any) -> Job:
    keys = ["k", "part"] if by_part else ["k"]
    output = {
        "type": "delta",
        "path": str(table),
        "upsert_columns": keys,
        "partition_columns": keys[1:],
    }
    query = {"sql": BY_PART if by_part else SUM}
    config = job_config({"events": events.topic}, "spark", output, query=query, output_mode="update", **more)
    source = config.inputs["events"].model_copy(update={"metadata_columns": {"partition": "part"}})
    return Job(runtime, config.model_copy(update={"inputs": {"events": source}}))


def rows_of(runtime: Runtime, table: Path) -> Counter[Any]:
    rows = Counter(tuple(row) for row in runtime.spark.read.format("delta").load(str(table)).collect())
    assert rows
    return rows


@pytest.mark.long
@pytest.mark.parametrize(
    ("sizes", "by_part"),
    [((2, 1), True), ((2, 3, 1), False)],
    ids=["partitioned as the input is", "not partitioned"],
)
def test_a_table_is_that_of_an_unsplit_run(
    runtime: Runtime, events: Events, tmp_path: Path, sizes: tuple[int, ...], by_part: bool
) -> None:
    """1. Tasks merge; one loses its last commit, as by `kill -9`. 2. A rescale finishes its batch. 3. The new tasks
    merge what came meanwhile."""
    job = make_job(runtime, events, tmp_path / "table", by_part=by_part, task_count=sizes[0])
    for phase, size in enumerate(sizes):
        events.add_range(phase * 300, (phase + 1) * 300)
        if phase:
            forget_last_commit(job.checkpoint(0))
            assert job.rescale(task_count=size).settled == 1
        job.run()
    unsplit = make_job(runtime, events, tmp_path / "unsplit", by_part=by_part)
    unsplit.run()
    assert rows_of(runtime, tmp_path / "table") == rows_of(runtime, tmp_path / "unsplit")


@pytest.mark.long
def test_what_a_restored_job_merges_again_is_there_once(runtime: Runtime, events: Events, tmp_path: Path) -> None:
    """1. A savepoint is taken. 2. The job reads on. 3. It goes back, at another size, and reads all of it again."""
    events.add_range(0, 300)
    job = make_job(runtime, events, tmp_path / "table", by_part=False, task_count=2)
    job.run()
    take(runtime, SavepointRequest(job=job.name, name="first", number=1, layout=job.layout))
    events.add_range(300, 600)
    job.run()
    back = Job(runtime, job.config.model_copy(update={"task_count": 3}), job.name, generation=2)
    source = job.layout.model_copy(update={"savepoint": SavepointName(job=job.name, name="first")})
    redistribute(runtime, RedistributionRequest(job=job.name, source=source, target=back.layout))
    back.run()
    unsplit = make_job(runtime, events, tmp_path / "unsplit", by_part=False)
    unsplit.run()
    assert rows_of(runtime, tmp_path / "table") == rows_of(runtime, tmp_path / "unsplit")
