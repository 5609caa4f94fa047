"""Streams that several tasks read: exact over deaths, rescales and savepoints, compared with one task or with sums."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from penstock.control.errors import BrokenTask
from penstock.spark.analysis.analyse import analyse
from penstock.spark.collect import collect
from penstock.spark.redistribute.positions import task_specs
from penstock.spark.task import RunningTask, Runtime, make_frame
from penstock.tasks.redistribution import GenerationRemoval
from tests.support.spark.session import forget_last_commit, unique
from tests.support.spark.streams import StreamJob, add_file, stream_config

SCHEMA = "k BIGINT, v BIGINT, at TIMESTAMP"
SUMS = "SELECT k, count(*) AS c, sum(v) AS s FROM events GROUP BY k"
ROWS = "SELECT k, v FROM events"
WINDOWS = (
    "SELECT k, date_format(window.start, 'HH:mm') AS begin, count(*) AS c, sum(v) AS s FROM events "
    "GROUP BY k, window(at, '1 hour')"
)
BY_KEY = {"key_groups": 8, "key_columns": ["k"]}
BY_FILE = {"key_groups": 8}
MOMENT, NOON = "2026-01-01T12:00:00Z", 1_767_268_800
EVENT_TIME = {**BY_KEY, "event_time_column": "at", "watermark_delay": "10 minutes"}
KINDS = ["json", pytest.param("delta", marks=pytest.mark.long)]


def rows(number: int, keys: int = 11) -> list[dict[str, Any]]:
    """The rows of a file: 40 of them, with event times of its hour."""
    return [{"k": n % keys, "v": number * 40 + n, "at": f"2026-01-01T{number:02}:{n:02}:00Z"} for n in range(40)]


def append(runtime: Runtime, kind: str, path: Path, numbers: Iterable[int], keys: int = 11) -> None:
    """A file for each number."""
    for number in numbers:
        if kind == "json":
            add_file(path, rows(number, keys))
            continue
        lines = [tuple(row.values()) for row in rows(number, keys)]
        frame = runtime.spark.createDataFrame(lines, "k BIGINT, v BIGINT, at STRING").coalesce(1)
        frame.withColumn("at", F.to_timestamp("at")).write.format(kind).mode("append").save(str(path))


def make_job(
    runtime: Runtime, kind: str, folder: Path, sql: str, stream: dict[str, Any], task_count: int, **more: Any
) -> StreamJob:
    """It writes to a Delta table of its own, or the sums to Postgres."""
    source = {"format": kind, "path": str(folder / "in"), **stream}
    if kind != "delta":
        source["value_schema"] = SCHEMA
    output: dict[str, Any] = {"path": str(folder / unique("out"))}
    if sql == SUMS:
        output = {"type": "postgres", "table": unique("sums").replace("-", "_"), "upsert_columns": ["k"]}
        more = {"output_mode": "update", **more}
    return StreamJob(runtime, stream_config(source, sql, output, task_count=task_count, **more))


def sums(numbers: Iterable[int]) -> list[tuple[int, int, int]]:
    found: dict[int, list[int]] = {}
    for row in (row for number in numbers for row in rows(number)):
        found.setdefault(row["k"], []).append(row["v"])
    return sorted((k, len(values), sum(values)) for k, values in found.items())


def pairs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    return sorted((row["k"], row["v"]) for number in numbers for row in rows(number))


@pytest.mark.parametrize("kind", KINDS)
def test_sums_by_key_are_exact(runtime: Runtime, tmp_path: Path, kind: str) -> None:
    """1. Two tasks, of which one dies before its last commit. 2. Three tasks go on, from different sections."""
    append(runtime, kind, tmp_path / "in", range(2))
    job = make_job(runtime, kind, tmp_path, SUMS, BY_KEY, task_count=2)
    job.read_to(3, 0)
    forget_last_commit(job.checkpoint)
    job.read_to(2, 1)
    assert job.rescale(task_count=3).state_rows == 11
    append(runtime, kind, tmp_path / "in", [2])
    job.read_to(4)
    assert job.rows() == sums(range(3))


@pytest.mark.long
@pytest.mark.parametrize("kind", ["json", "delta"])
def test_windows_are_as_of_one_task(runtime: Runtime, tmp_path: Path, kind: str) -> None:
    """1. Three tasks, of which one is four sections behind. From hour 3 on all rows are of key 0, which one task has:
    they close the windows of the others, too. 2. A rescale brings it to the others, then two tasks go on."""
    append(runtime, kind, tmp_path / "in", range(3))
    append(runtime, kind, tmp_path / "in", range(3, 5), keys=1)
    job = make_job(runtime, kind, tmp_path, WINDOWS, EVENT_TIME, task_count=3)
    job.read_to(6, 0, 1)
    job.read_to(2, 2)
    assert job.rescale(task_count=2).levelled == 1
    append(runtime, kind, tmp_path / "in", range(5, 8), keys=1)
    job.read_to(9)
    of_all = [(k, f"{number:02}:00", c, s) for number in range(3) for k, c, s in sums([number])]
    of_one_key = [(0, f"{number:02}:00", 40, sum(row["v"] for row in rows(number))) for number in range(3, 7)]
    assert job.rows() == sorted([*of_all, *of_one_key])


@pytest.mark.long
@pytest.mark.parametrize("kind", ["json", "delta"])
def test_rows_by_file_are_exact(runtime: Runtime, tmp_path: Path, kind: str) -> None:
    """1. Three tasks read files of their own. 2. One dies before its commit. 3. Two, then four go on. 4. Back to a
    savepoint: what came after it is read again, in the same sections."""
    append(runtime, kind, tmp_path / "in", range(4))
    job = make_job(runtime, kind, tmp_path, ROWS, BY_FILE, task_count=3)
    job.read_to(5)
    forget_last_commit(job.checkpoint)
    job.rescale(task_count=2)
    append(runtime, kind, tmp_path / "in", range(4, 8))
    job.read_to(6)
    job.rescale(task_count=4)
    job.save("s")
    job.read_to(9)
    assert job.rows() == pairs(range(8))
    job.restore("s", task_count=3)
    assert [folder.name for folder in (Path(runtime.settings.checkpoint_root) / job.name / "streams").iterdir()] == [
        "g1"
    ]
    job.read_to(9)
    assert job.rows() == sorted([*pairs(range(8)), *pairs(range(5, 8))])


@pytest.mark.long
@pytest.mark.parametrize("kind", ["json", "delta"])
def test_another_job_goes_on_from_a_savepoint(runtime: Runtime, tmp_path: Path, kind: str) -> None:
    """1. A job of two tasks takes a savepoint at different sections. 2. It is forgotten with all that it has read, once
    another job has taken over, also a file that was there and is gone. 3. From then on a start from it is refused."""
    append(runtime, kind, tmp_path / "in", range(3))
    job = make_job(runtime, kind, tmp_path, SUMS, BY_KEY, task_count=2)
    job.read_to(4, 0)
    job.read_to(2, 1)
    job.save("s")
    clone = make_job(runtime, kind, tmp_path, SUMS, BY_KEY, task_count=3)
    clone.adopt(job, "s")
    sections = Path(runtime.settings.checkpoint_root) / job.name / "streams"
    assert list(sections.iterdir()) == [sections / "g1"]
    collect(runtime, GenerationRemoval(job=job.name, generation=1, forgotten=True))
    assert not list(sections.iterdir())
    append(runtime, kind, tmp_path / "in", [3])
    clone.read_to(5)
    groups = {row[0]: row for row in sums(range(4))}
    assert clone.rows() == [groups[row[0]] for row in clone.rows()] != []
    late = make_job(runtime, kind, tmp_path, SUMS, BY_KEY, task_count=3)
    with pytest.raises(BrokenTask, match=r"streams.events: the sections 0 to 3 .* were deleted with the job"):
        late.adopt(job, "s")


@pytest.mark.long
def test_two_streams_are_joined_by_key(runtime: Runtime, tmp_path: Path) -> None:
    """A table and a folder, over a rescale that moves the state of the join."""
    append(runtime, "json", tmp_path / "in", [0])
    append(runtime, "delta", tmp_path / "more", [1])
    more = {"format": "delta", "path": str(tmp_path / "more"), **BY_KEY}
    job = make_job(
        runtime, "json", tmp_path, "SELECT e.k, e.v, m.v AS w FROM events e JOIN more m USING (k)", BY_KEY, 3
    )
    streams = {**job.config.model_dump()["streams"], "more": more}
    job.config = job.config.model_validate({**job.config.model_dump(), "streams": streams})
    job.read_to(2)
    append(runtime, "json", tmp_path / "in", [2])
    append(runtime, "delta", tmp_path / "more", [3])
    assert job.rescale(task_count=2).state_rows > 80
    job.read_to(3)
    right = pairs([1, 3])
    assert job.rows() == sorted((k, v, w) for k, v in pairs([0, 2]) for other, w in right if k == other)


@pytest.mark.long
@pytest.mark.parametrize("stream", [BY_KEY, BY_FILE])
def test_rows_that_a_table_has_deleted_are_not_read(runtime: Runtime, tmp_path: Path, stream: dict[str, Any]) -> None:
    """They are still in its files, and a vector says that they are deleted."""
    append(runtime, "delta", tmp_path / "in", range(2))
    table = f"delta.`{tmp_path}/in`"
    runtime.spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableDeletionVectors' = true)")
    runtime.spark.sql(f"DELETE FROM {table} WHERE v = 5")
    job = make_job(runtime, "delta", tmp_path, ROWS, stream, task_count=2)
    job.read_to(3)
    assert job.rows() == [pair for pair in pairs(range(2)) if pair[1] != 5]


@pytest.mark.long
def test_columns_of_partitions_are_read_and_may_be_keys(runtime: Runtime, tmp_path: Path) -> None:
    """A folder that has none when the tasks start."""
    (tmp_path / "in").mkdir()
    stream = {"key_groups": 8, "key_columns": ["day"]}
    job = make_job(runtime, "json", tmp_path, "SELECT v, day FROM events", stream, task_count=2)
    source = job.config.streams["events"].model_copy(update={"value_schema": "day STRING, v BIGINT"})
    job.config = job.config.model_copy(update={"streams": {"events": source}})
    for day in ("a", "b"):
        folder = tmp_path / "in" / f"day={day}"
        folder.mkdir()
        (folder / "0.json").write_text(json.dumps({"v": 1}))
    job.read_to(3)
    assert job.rows() == [(1, "a"), (1, "b")]


@pytest.mark.long
def test_an_owner_that_is_late_changes_nothing(runtime: Runtime, tmp_path: Path) -> None:
    """1. A task is claimed, and hangs. 2. A newer owner reads all there is. 3. The first one goes on with a new file:
    it says what the next section has, and is fenced before it reads it. 4. The newer owner reads that section."""
    append(runtime, "json", tmp_path / "in", range(2))
    job = make_job(runtime, "json", tmp_path, ROWS, BY_FILE, task_count=2)
    late = RunningTask(runtime, task_specs(job.name, job.layout)[0], epoch=1)
    late.claim()
    job.read_to(3)
    append(runtime, "json", tmp_path / "in", [2])
    with pytest.raises(Exception, match="FENCED"):
        late.run_until(lambda: False, 60)
    append(runtime, "json", tmp_path / "in", [3])
    job.read_to(5)
    assert job.rows() == pairs(range(4))


@pytest.mark.long
def test_files_may_be_deleted_once_they_are_read_and_not_before(runtime: Runtime, tmp_path: Path) -> None:
    """1. All is read, and deleted: the task starts again. 2. A batch is not committed, and its file is gone: the error
    names it. 3. So it does for one that has changed."""
    append(runtime, "json", tmp_path / "in", range(2))
    job = make_job(runtime, "json", tmp_path, ROWS, BY_FILE, task_count=2)
    job.read_to(3)
    for file in (tmp_path / "in").iterdir():
        file.rename(tmp_path / file.name)
    (tmp_path / "in" / "more.json").write_text(json.dumps(rows(2)[0]))
    job.read_to(4)
    assert job.rows() == sorted([*pairs(range(2)), (0, 80)])
    job.rescale(task_count=1)
    (tmp_path / "in" / "last.json").write_text(json.dumps(rows(3)[0]))
    job.read_to(5)
    forget_last_commit(job.checkpoint)
    (tmp_path / "in" / "last.json").write_text("changed")
    with pytest.raises(Exception, match=r"last\.json of a stream has changed"):
        job.read_to(5)
    (tmp_path / "in" / "last.json").unlink()
    with pytest.raises(Exception, match=r"last\.json"):
        job.read_to(5)


@pytest.mark.long
def test_a_table_is_begun_once_for_all_tasks(runtime: Runtime, tmp_path: Path) -> None:
    """`latest` is after the rows that are there when the first task begins, also for one that begins later. A version
    is the same for all, and so is the first one of a moment or later."""
    append(runtime, "delta", tmp_path / "in", range(2))
    job = make_job(runtime, "delta", tmp_path, SUMS, {**BY_KEY, "starting_position": "latest"}, task_count=2)
    job.begin(0)
    append(runtime, "delta", tmp_path / "in", [2])
    job.read_to(2, 1)
    job.read_to(2, 0)
    assert job.rows() == sums([2])
    job = make_job(runtime, "delta", tmp_path, SUMS, {**BY_KEY, "starting_version": 1}, task_count=2)
    job.read_to(3)
    assert job.rows() == sums([1, 2])
    for version, at in enumerate((NOON - 60, NOON, NOON + 60)):
        os.utime(tmp_path / "in" / "_delta_log" / f"{version:020}.json", (at, at))
    job = make_job(runtime, "delta", tmp_path, SUMS, {**BY_KEY, "starting_position": MOMENT}, task_count=2)
    job.read_to(3)
    assert job.rows() == sums([1, 2])


def test_rows_of_others_count_for_the_watermark(runtime: Runtime, tmp_path: Path) -> None:
    """The filter stays above the watermark, and the group of a row is that of the function `spark` of inputs."""
    append(runtime, "json", tmp_path / "in", [0])
    job = make_job(runtime, "json", tmp_path, ROWS, EVENT_TIME, task_count=3)
    spec = task_specs(job.name, job.layout)[1]
    frame = make_frame(runtime, spec, "", "").frame
    optimizer: Any = runtime.spark._jsparkSession.sessionState().optimizer()  # type: ignore[attr-defined]
    plan = optimizer.execute(frame._jdf.queryExecution().analyzed()).toString()
    assert plan.index("Filter") < plan.index("EventTimeWatermark") < plan.index("StreamingRelation")
    job.read_to(2, 1)
    hashed = runtime.spark.range(11).where(
        F.pmod(F.hash("id"), F.lit(8)).between(spec.key_groups.lo, spec.key_groups.hi - 1)
    )
    assert {row[0] for row in job.rows()} == {row.id for row in hashed.collect()} != set()


@pytest.mark.parametrize("kind", ["json", "delta"])
def test_a_start_loads_a_stream_once(
    runtime: Runtime, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its columns are those of the folder or table, in the order of the schema, also where partitions have some."""
    loads: list[DataStreamReader] = []
    load = DataStreamReader.load

    def counted(reader: DataStreamReader, *given: Any, **options: Any) -> DataFrame:
        loads.append(reader)
        return load(reader, *given, **options)

    monkeypatch.setattr(DataStreamReader, "load", counted)
    append(runtime, kind, tmp_path / "in", [0])
    job = make_job(runtime, kind, tmp_path, "SELECT * FROM events", BY_KEY, task_count=2)
    if kind == "json":
        (tmp_path / "in" / "k=3").mkdir()
        (tmp_path / "in" / "0.json").rename(tmp_path / "in" / "k=3" / "0.json")
    frame = make_frame(runtime, task_specs(job.name, job.layout)[0], "", "").frame
    assert (len(loads), frame.columns) == (1, ["k", "v", "at"])


def test_an_analysis_names_key_columns_and_states_that_cannot_be(runtime: Runtime, tmp_path: Path) -> None:
    append(runtime, "delta", tmp_path / "in", [0])

    def problems(sql: str, stream: dict[str, Any]) -> str:
        job = make_job(runtime, "delta", tmp_path, sql, stream, task_count=2)
        found = analyse(runtime.spark, runtime.settings, "job", job.config)
        return "; ".join(f"{each.field} {each.rule} {each.detail}" for each in found.problems)

    assert problems(SUMS, BY_KEY) == ""
    assert problems(ROWS, BY_FILE) == ""
    assert "streams.events.key_columns unknown_column" in problems(ROWS, {**BY_KEY, "key_columns": ["none"]})
    assert "streams.events has no key_columns. Create a job whose streams" in problems(SUMS, BY_FILE)
    assert "streams.events has key_columns (v bigint)" in problems(SUMS, {**BY_KEY, "key_columns": ["v"]})
