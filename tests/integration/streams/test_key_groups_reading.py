"""Streams with key groups whose rows would be read in another way, or from sections of a job that is gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.config.model import JobConfig
from penstock.control.errors import BrokenTask
from penstock.spark.analysis.analyse import analyse
from penstock.spark.collect import collect
from penstock.spark.files import local_path
from penstock.spark.task import Runtime
from penstock.tasks.redistribution import GenerationRemoval
from tests.support.spark.session import unique
from tests.support.spark.streams import StreamJob, add_file, stream_config

BY_KEY = {"key_groups": 8, "key_columns": ["k"]}
ROWS = "SELECT CAST(k AS STRING) AS k, v FROM events"
SCHEMA = "k BIGINT, v BIGINT"

NOT_BY_TIME = {"max_bytes_per_trigger": 2**40}
"""Sections have as many files as their limit allows, however long they take."""


def make_job(runtime: Runtime, folder: Path, stream: dict[str, Any], sql: str = ROWS) -> StreamJob:
    source = {"format": "json", "path": str(folder / "in"), **stream}
    if source["format"] != "delta":
        source.setdefault("value_schema", SCHEMA)
    task_count = 2 if "key_groups" in stream else 1
    output = {"path": str(folder / unique("out"))}
    return StreamJob(runtime, stream_config(source, sql, output, task_count=task_count))


def changed(config: JobConfig, **changes: Any) -> JobConfig:
    stream = config.streams["events"].model_copy(update=changes)
    return config.model_copy(update={"streams": {"events": stream}})


def rows(number: int) -> list[dict[str, Any]]:
    return [{"k": k, "v": number * 100 + k} for k in range(20)]


def values(job: StreamJob) -> list[int]:
    return [row[1] for row in sorted(job.rows(), key=lambda row: int(row[1]))]


def test_a_key_keeps_its_type(runtime: Runtime, tmp_path: Path) -> None:
    """1. The tasks stand at different sections. 2. The key has another type: no task starts, and a generation is not
    made. 3. With its own type, and other columns that are no keys, each row is there once."""
    for number in range(4):
        add_file(tmp_path / "in", rows(number))
    job = make_job(runtime, tmp_path, BY_KEY)
    job.read_to(4, 0)
    job.read_to(2, 1)
    own = job.config
    job.config = changed(own, value_schema="k INT, v BIGINT")
    with pytest.raises(BrokenTask, match=r"^streams\.events\.key_columns: .*\"int\".*\"bigint\""):
        job.read_to(5, 1)
    job.config = own
    with pytest.raises(BrokenTask, match=r"streams\.events\.value_schema reads the key_columns in another way"):
        job.rescale(streams=changed(own, value_schema="k INT, v BIGINT").streams)
    job.config, job.generation = changed(own, value_schema="more STRING, v BIGINT, k BIGINT"), 1
    job.read_to(5)
    assert values(job) == [row["v"] for number in range(4) for row in rows(number)]


@pytest.mark.long
def test_a_key_of_a_table_keeps_its_type(runtime: Runtime, tmp_path: Path) -> None:
    table = f"delta.`{tmp_path}/in`"
    widens = "TBLPROPERTIES('delta.enableTypeWidening' = 'true')"
    runtime.spark.sql(f"CREATE TABLE {table} (k INT, v BIGINT) USING delta {widens}")
    for number in range(3):
        runtime.spark.sql(f"INSERT INTO {table} SELECT CAST(id AS INT), {number} * 100 + id FROM range(20)")
    job = make_job(runtime, tmp_path, {**BY_KEY, "format": "delta", "starting_version": 0})
    job.read_to(3, 0)
    runtime.spark.sql(f"ALTER TABLE {table} CHANGE COLUMN k TYPE BIGINT")
    with pytest.raises(BrokenTask, match=r"^streams\.events\.key_columns: .*\"bigint\".*\"int\""):
        job.read_to(3, 1)


@pytest.mark.long
def test_a_time_that_is_a_key_keeps_its_zone(runtime: Runtime, tmp_path: Path) -> None:
    """A text without a zone is of the zone of the session."""
    add_file(tmp_path / "in", [{"k": f"2026-01-01T{hour:02}:00:00", "v": hour} for hour in range(20)])
    job = make_job(runtime, tmp_path, {**BY_KEY, "value_schema": "k TIMESTAMP, v BIGINT"})
    job.read_to(2, 0)
    job.config = job.config.model_copy(update={"spark_settings": {"spark.sql.session.timeZone": "Europe/Berlin"}})
    with pytest.raises(BrokenTask, match=r"^streams\.events\.key_columns: .*Europe/Berlin"):
        job.read_to(2, 1)


def test_a_job_made_anew_has_sections_of_its_own(runtime: Runtime, tmp_path: Path) -> None:
    """1. A savepoint at different sections; the job is deleted. 2. One of its name begins with the savepoint. 3. What
    the deleted job had is collected. 4. The new one reads the rest, once."""
    for number in range(3):
        add_file(tmp_path / "in", rows(number))
    former = make_job(runtime, tmp_path, BY_KEY)
    former.read_to(4, 0)
    former.read_to(2, 1)
    former.save("s")
    job = make_job(runtime, tmp_path, BY_KEY)
    job.name, job.generation = former.name, 4
    job.adopt(former, "s")
    sections = local_path(runtime.settings.checkpoint_root) / job.name / "streams"
    assert {folder.name for folder in sections.iterdir()} == {"g1", "g5"}
    collect(runtime, GenerationRemoval(job=job.name, generation=1, forgotten=True))
    assert [folder.name for folder in sections.iterdir()] == ["g5"]
    job.read_to(4)
    assert sorted([*values(former), *values(job)]) == [row["v"] for number in range(3) for row in rows(number)]


@pytest.mark.long
def test_a_key_is_equal_by_its_bytes(runtime: Runtime, tmp_path: Path) -> None:
    add_file(tmp_path / "in", [{"k": "a", "v": 1}])

    def problems(schema: str) -> list[tuple[str, str]]:
        job = make_job(runtime, tmp_path, {**BY_KEY, "value_schema": schema}, "SELECT v FROM events")
        return [
            (each.field, each.rule) for each in analyse(runtime.spark, runtime.settings, "job", job.config).problems
        ]

    assert problems("k STRING, v BIGINT") == []
    for key in ("STRING COLLATE UTF8_LCASE", "STRUCT<a: STRING COLLATE UNICODE_CI>"):
        assert problems(f"k {key}, v BIGINT") == [("streams.events.key_columns", "key_is_binary")]


@pytest.mark.long
def test_files_with_deleted_rows_are_in_key_groups_as_others(runtime: Runtime, tmp_path: Path) -> None:
    """Of each section, one file has a deletion vector and one has none."""
    table = f"delta.`{tmp_path}/in`"
    for number in range(4):
        frame = runtime.spark.range(number * 10, number * 10 + 10).selectExpr("id AS k", "id AS v").coalesce(1)
        vectors = {"delta.enableDeletionVectors": "true"}
        frame.write.format("delta").mode("append").options(**vectors).save(str(tmp_path / "in"))
    runtime.spark.sql(f"DELETE FROM {table} WHERE k IN (3, 23)")
    stream = {"format": "delta", "key_groups": 8, "max_files_per_batch": 2}
    job = make_job(runtime, tmp_path, stream)
    job.config = job.config.model_copy(update=NOT_BY_TIME)
    job.read_to(3)
    assert values(job) == [number for number in range(40) if number not in (3, 23)]


@pytest.mark.long
def test_columns_of_partitions_have_their_declared_types(runtime: Runtime, tmp_path: Path) -> None:
    """Whatever the values of a section look like; and a file may lie in no folder of a partition."""
    for number, part in enumerate(["01", "eu", "3000000000", "2026-01-01"]):
        folder = tmp_path / "in" / f"k={part}"
        folder.mkdir(parents=True)
        (folder / f"{number}.json").write_text(f'{{"v": {number}}}')
    job = make_job(runtime, tmp_path, {**BY_KEY, "value_schema": "k STRING, v BIGINT"})
    job.read_to(5)
    assert sorted(job.rows()) == [("01", 0), ("2026-01-01", 3), ("3000000000", 2), ("eu", 1)]


@pytest.mark.long
def test_a_file_may_lie_in_no_partition(runtime: Runtime, tmp_path: Path) -> None:
    """As with one key group."""
    add_file(tmp_path / "in", [{"k": 7, "v": 0}])
    one = make_job(runtime, tmp_path, {}, "SELECT k, v FROM events")
    several = make_job(runtime, tmp_path, BY_KEY, "SELECT k, v FROM events")
    several.read_to(2)
    one.run(0)
    (tmp_path / "in" / "k=5").mkdir()
    (tmp_path / "in" / "k=5" / "1.json").write_text('{"v": 1}')
    several.read_to(3)
    one.run(1)
    assert sorted(several.rows(), key=str) == sorted(one.rows(), key=str)
