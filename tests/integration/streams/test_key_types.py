"""Two streams whose keys are of INT in one and of BIGINT in the other: Spark's hash puts equal numbers into other key
groups, so several tasks may not bring them together, and one task may."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from penstock.config.model import JobConfig
from penstock.control.errors import BrokenTask
from penstock.spark.analysis.analyse import analyse
from penstock.spark.redistribute.positions import task_specs
from penstock.spark.task import Runtime, make_frame
from tests.support.spark.session import unique
from tests.support.spark.streams import StreamJob, add_file, stream_config

KEYS = 24
UNION = "SELECT k, count(*) AS c, sum(v) AS s FROM (SELECT * FROM events UNION ALL SELECT * FROM more) GROUP BY k"
CASTS = UNION.replace("SELECT * FROM events", "SELECT CAST(k AS BIGINT) AS k, v FROM events")
KINDS = [("INT", "BIGINT"), pytest.param(("BIGINT", "INT"), marks=pytest.mark.long)]
JOIN = "SELECT e.k, e.v, m.v AS w FROM events e JOIN more m ON e.k = m.k"


def make_job(runtime: Runtime, folder: Path, sql: str, kinds: tuple[str, str], task_count: int) -> StreamJob:
    """It reads a folder and a Delta table, both with rows of all keys. The key of each is of one of the `kinds`."""
    add_file(folder / "in", [{"k": key, "v": key} for key in range(KEYS)])
    _make_table(runtime, folder / "more", kinds[1])
    keyed = {"key_groups": 8, "key_columns": ["k"]}
    events = {"format": "json", "path": str(folder / "in"), "value_schema": f"k {kinds[0]}, v BIGINT", **keyed}
    output: dict[str, Any] = {"path": str(folder / unique("out"))}
    more: dict[str, Any] = {"task_count": task_count}
    if sql != JOIN:
        output = {"type": "postgres", "table": unique("sums").replace("-", "_"), "upsert_columns": ["k"]}
        more["output_mode"] = "update"
    config = stream_config(events, sql, output, **more).model_dump()
    config["streams"]["more"] = {"format": "delta", "path": str(folder / "more"), **keyed}
    return StreamJob(runtime, JobConfig.model_validate(config))


def _make_table(runtime: Runtime, path: Path, kind: str) -> None:
    numbers = runtime.spark.range(KEYS).select(F.col("id").cast(kind).alias("k"), (F.col("id") + 100).alias("v"))
    writer = numbers.coalesce(1).write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    writer.save(str(path))


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("sql", [UNION, CASTS, JOIN], ids=["union", "cast", "join"])
def test_several_tasks_are_refused(runtime: Runtime, tmp_path: Path, sql: str, kinds: tuple[str, str]) -> None:
    """By the plan, which names both types, and by each start."""
    job = make_job(runtime, tmp_path, sql, kinds, 2)
    (problem,) = analyse(runtime.spark, runtime.settings, "job", job.config).problems
    assert (problem.field, problem.rule) == ("task_count", "stateful_needs_keys")
    assert "(k int)" in problem.detail
    assert "(k bigint)" in problem.detail
    for spec in task_specs(job.name, job.layout):
        with pytest.raises(BrokenTask, match="not sure to be in one task"):
            make_frame(runtime, spec, "", "")


def test_a_table_that_was_made_again_is_asked_for_its_types(runtime: Runtime, tmp_path: Path) -> None:
    """1. Two tasks join by keys of INT. 2. The job is deleted, and one table is made again with BIGINT. 3. The same
    query comes back to the host, without a plan before: its start finds the new type, and then the old one again."""
    job = make_job(runtime, tmp_path, JOIN, ("INT", "INT"), 2)
    spec = task_specs(job.name, job.layout)[0]
    make_frame(runtime, spec, "", "")
    _make_table(runtime, tmp_path / "more", "BIGINT")
    again = spec.model_copy(update={"job": unique("job")})
    with pytest.raises(BrokenTask, match="not sure to be in one task"):
        make_frame(runtime, again, "", "")
    _make_table(runtime, tmp_path / "more", "INT")
    make_frame(runtime, again, "", "")


@pytest.mark.long
@pytest.mark.parametrize(("kinds", "task_count"), [(("INT", "BIGINT"), 1), (("INT", "INT"), 2)], ids=["one", "equal"])
@pytest.mark.parametrize("sql", [UNION, JOIN], ids=["union", "join"])
def test_rows_of_equal_keys_meet(
    runtime: Runtime, tmp_path: Path, sql: str, kinds: tuple[str, str], task_count: int
) -> None:
    """In one task, whatever their types; in two, of one type."""
    job = make_job(runtime, tmp_path, sql, kinds, task_count)
    assert analyse(runtime.spark, runtime.settings, "job", job.config).problems == []
    job.read_to(2)
    expected = (lambda key: (key, key, key + 100)) if sql == JOIN else (lambda key: (key, 2, 2 * key + 100))
    assert job.rows() == [expected(key) for key in range(KEYS)]
