"""Two jobs that write one table and would take away each other's rows: refused, unless both say it is meant."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.config.model import DeltaOutput, Output, PostgresOutput
from penstock.control.errors import BrokenTask
from penstock.spark.settings import SparkSettings
from penstock.spark.sinks import check, writer
from penstock.spark.sinks.postgres_connections import pool_of
from penstock.tasks.spec import TaskSpec
from tests.support.spark.session import Feed, run_to_end, sink_task

_BY_KEY = PostgresOutput(table="sums", upsert_columns=("dest",))
_SHARED = _BY_KEY.model_copy(update={"allow_other_writers": True})
_TAKEN = "output.table: {} also writes to .*sums.* by key.*set output.allow_other_writers in all these jobs"


def task_of(job: str, output: Output, output_mode: str = "append") -> TaskSpec:
    """A task of a job with this name."""
    return sink_task(output, output_mode=output_mode).model_copy(update={"job": job})


@pytest.fixture
def counts(spark: SparkSession, tmp_path: Path) -> DataFrame:
    """Rows by key."""
    feed = Feed(tmp_path / "feed", "dest string")
    feed.add([{"dest": "A"}])
    return feed.frame(spark).groupBy("dest").count()


@pytest.fixture
def rows(spark: SparkSession, tmp_path: Path) -> DataFrame:
    """Rows to append, of the same columns."""
    feed = Feed(tmp_path / "rows", "dest string, count bigint")
    feed.add([{"dest": "B", "count": 1}])
    return feed.frame(spark)


class TestPostgres:
    @staticmethod
    def noted(settings: SparkSettings) -> list[tuple[str, ...]]:
        """The notes: table and job."""
        with psycopg.connect(settings.connections["default"]) as connection:
            notes = "SELECT table_oid::regclass::text, job FROM penstock_writers ORDER BY job"
            return connection.execute(notes).fetchall()

    @pytest.fixture
    def settings(self, empty_database_url: str) -> Iterator[SparkSettings]:
        url = empty_database_url
        yield SparkSettings(checkpoint_root="", kafka_bootstrap="127.0.0.1:1", connections={"default": url})
        pool_of(url).close()

    def test_a_second_job_is_refused_in_plans_and_at_its_start(self, rows: DataFrame, settings: SparkSettings) -> None:
        writer(rows, task_of("first", _BY_KEY), settings)
        writer(rows, task_of("first", _BY_KEY), settings)
        second = task_of("second", PostgresOutput(table="public.sums", upsert_columns=("dest",)))
        with pytest.raises(BrokenTask, match=_TAKEN.format("first")):
            check(rows, second.job, second.config, settings)
        with pytest.raises(BrokenTask, match=_TAKEN.format("first")):
            writer(rows, second, settings)

    def test_both_jobs_must_say_so(self, rows: DataFrame, settings: SparkSettings) -> None:
        writer(rows, task_of("first", _BY_KEY), settings)
        with pytest.raises(BrokenTask, match=_TAKEN.format("first")):
            writer(rows, task_of("second", _SHARED), settings)
        writer(rows, task_of("first", _SHARED), settings)
        writer(rows, task_of("second", _SHARED), settings)
        with pytest.raises(BrokenTask, match=_TAKEN.format("second")):
            writer(rows, task_of("first", _BY_KEY), settings)

    def test_a_table_is_free_again_when_its_job_writes_another_or_it_was_made_anew(
        self, rows: DataFrame, settings: SparkSettings
    ) -> None:
        writer(rows, task_of("first", _BY_KEY), settings)
        writer(rows, task_of("first", PostgresOutput(table="others", upsert_columns=("dest",))), settings)
        writer(rows, task_of("second", _BY_KEY), settings)
        assert self.noted(settings) == [("others", "first"), ("sums", "second")]
        with psycopg.connect(settings.connections["default"]) as connection:
            connection.execute("DROP TABLE sums")
        writer(rows, task_of("third", _BY_KEY), settings)
        assert ("sums", "third") in self.noted(settings)

    def test_jobs_that_append_share_a_table_when_the_second_says_so(
        self, rows: DataFrame, settings: SparkSettings
    ) -> None:
        """One that writes by key says so, too. What the refusal tells of a deleted job frees the table."""
        log = PostgresOutput(table="log")
        writer(rows, task_of("first", log), settings)
        writer(rows, task_of("first", log), settings)
        second = task_of("second", PostgresOutput(table="public.log"))
        for refused in (check, lambda *_: writer(rows, second, settings)):
            with pytest.raises(
                BrokenTask, match=r'the job first made the table "public"."log" .* set output.allow_other_writers'
            ) as told:
                refused(rows, second.job, second.config, settings)
        writer(rows, task_of("second", log.model_copy(update={"allow_other_writers": True})), settings)
        with psycopg.connect(settings.connections["default"]) as connection:
            connection.execute("ALTER TABLE log ADD PRIMARY KEY (dest)")
        third = log.model_copy(update={"upsert_columns": ("dest",)})
        with pytest.raises(BrokenTask, match="the job first made the table"):
            writer(rows, task_of("third", third), settings)
        writer(rows, task_of("third", third.model_copy(update={"allow_other_writers": True})), settings)
        with psycopg.connect(settings.connections["default"]) as connection:
            connection.execute(told.value.detail.partition("If that job is deleted: ")[2].encode())
        writer(rows, second, settings)

    def test_a_table_that_no_job_made_is_anybodys(self, rows: DataFrame, settings: SparkSettings) -> None:
        """Also one of an earlier release, which left no comment; comments of others are theirs."""
        with psycopg.connect(settings.connections["default"]) as connection:
            connection.execute("CREATE TABLE log (dest text, count bigint); COMMENT ON TABLE log IS 'Rows of flights'")
        for job in ("first", "second"):
            writer(rows, task_of(job, PostgresOutput(table="log")), settings)
        with psycopg.connect(settings.connections["default"]) as connection:
            told = connection.execute("SELECT obj_description('log'::regclass)").fetchone()
        assert told == ("Rows of flights",)

    def test_a_plan_notes_nothing(self, rows: DataFrame, settings: SparkSettings) -> None:
        first = task_of("first", _BY_KEY)
        check(rows, first.job, first.config, settings)
        writer(rows, task_of("second", _BY_KEY), settings)
        assert self.noted(settings) == [("sums", "second")]


class TestDelta:
    @pytest.fixture
    def settings(self) -> SparkSettings:
        return SparkSettings(checkpoint_root="", kafka_bootstrap="127.0.0.1:1", connections={})

    @pytest.fixture
    def output(self, tmp_path: Path) -> DeltaOutput:
        return DeltaOutput(path=str(tmp_path / "table"))

    def test_nobody_else_writes_to_a_table_that_a_job_replaces(
        self, counts: DataFrame, rows: DataFrame, output: DeltaOutput, settings: SparkSettings
    ) -> None:
        writer(counts, task_of("first", output, "complete"), settings)
        writer(counts, task_of("first", output, "complete"), settings)
        for frame, mode in ((rows, "append"), (counts, "complete")):
            second = task_of("second", output, mode)
            with pytest.raises(BrokenTask, match=r"output\.path: the job first replaces the table"):
                check(frame, second.job, second.config, settings)
            with pytest.raises(BrokenTask, match=r"output\.path: the job first replaces the table"):
                writer(frame, second, settings)

    @pytest.mark.long
    def test_a_table_with_rows_of_others_is_not_replaced(
        self, counts: DataFrame, rows: DataFrame, output: DeltaOutput, settings: SparkSettings, spark: SparkSession
    ) -> None:
        writer(rows, task_of("first", output), settings)
        with pytest.raises(BrokenTask, match="has rows of others, which output_mode complete would replace"):
            writer(counts, task_of("second", output, "complete"), settings)
        own = output.model_copy(update={"path": f"{output.path}-own"})
        spark.sql("SELECT 'C' AS dest, 1L AS count").write.format("delta").save(own.path)
        with pytest.raises(BrokenTask, match="has rows of others"):
            writer(counts, task_of("second", own, "complete"), settings)

    @pytest.mark.long
    def test_jobs_that_append_share_a_table_when_the_second_says_so(
        self, rows: DataFrame, output: DeltaOutput, settings: SparkSettings, spark: SparkSession
    ) -> None:
        """Also where it writes the path otherwise. A table of an earlier release is anybody's. Spark hides `url`."""
        writer(rows, task_of("hourly", output), settings)
        writer(rows, task_of("hourly", output), settings)
        second = task_of("second", output.model_copy(update={"path": f"file:{output.path}/"}))
        for refused in (check, lambda *_: writer(rows, second, settings)):
            with pytest.raises(
                BrokenTask, match=r"the job hourly made the table .* set output.allow_other_writers"
            ) as told:
                refused(rows, second.job, second.config, settings)
        writer(rows, task_of("second", output.model_copy(update={"allow_other_writers": True})), settings)
        spark.sql(f"ALTER TABLE delta.`{output.path}` SET TBLPROPERTIES ('penstock.appended' = 'true')")
        writer(rows, second, settings)
        spark.sql(f"ALTER TABLE delta.`{output.path}` SET TBLPROPERTIES ('penstock.appended' = 'first')")
        spark.sql(told.value.detail.partition("If that job is deleted: ")[2])
        writer(rows, second, settings)
        assert spark.read.format("delta").load(output.path).columns == ["dest", "count"]

    @pytest.mark.long
    def test_a_hidden_name_in_a_note_of_an_earlier_release_is_told_as_such(
        self, counts: DataFrame, output: DeltaOutput, settings: SparkSettings, spark: SparkSession
    ) -> None:
        """What the refusal tells makes the table that of the job."""
        writer(counts, task_of("hourly", output, "complete"), settings)
        spark.sql(f"ALTER TABLE delta.`{output.path}` SET TBLPROPERTIES ('penstock.replacedBy' = 'hourly')")
        for job in ("other", "hourly"):
            with pytest.raises(BrokenTask, match="a job whose name Spark hides replaces the table") as told:
                writer(counts, task_of(job, output, "complete"), settings)
        spark.sql(told.value.detail.partition("If it is this job: ")[2])
        writer(counts, task_of("hourly", output, "complete"), settings)
        with pytest.raises(BrokenTask, match="the job hourly replaces the table"):
            writer(counts, task_of("other", output, "complete"), settings)

    @pytest.mark.long
    def test_an_empty_table_may_be_replaced(
        self, counts: DataFrame, rows: DataFrame, output: DeltaOutput, settings: SparkSettings, spark: SparkSession
    ) -> None:
        empty = output.model_copy(update={"path": f"{output.path}-empty"})
        spark.sql("SELECT 'C' AS dest, 1L AS count WHERE false").write.format("delta").save(empty.path)
        writer(counts, task_of("third", empty, "complete"), settings)
        with pytest.raises(BrokenTask, match="the job third replaces the table"):
            writer(rows, task_of("first", empty), settings)

    @pytest.mark.long
    def test_a_table_is_replaced_when_that_is_meant(
        self, counts: DataFrame, rows: DataFrame, output: DeltaOutput, settings: SparkSettings, tmp_path: Path
    ) -> None:
        run_to_end(writer(rows, task_of("first", output), settings), tmp_path / "one")
        meant = output.model_copy(update={"allow_other_writers": True})
        run_to_end(writer(counts, task_of("second", meant, "complete"), settings), tmp_path / "two")
        table = counts.sparkSession.read.format("delta").load(output.path)
        assert table.collect() == [("A", 1)]
        with pytest.raises(BrokenTask, match="the job second replaces the table"):
            writer(rows, task_of("first", output), settings)

    @pytest.mark.long
    def test_jobs_that_write_by_key_must_all_say_so_and_others_for_themselves(
        self, counts: DataFrame, rows: DataFrame, output: DeltaOutput, settings: SparkSettings, spark: SparkSession
    ) -> None:
        """1. Nobody shares. 2. The first one does. 3. What the refusal tells frees the table. 4. A job that appends
        from now on is no writer by key any more."""
        alone = output.model_copy(update={"upsert_columns": ("dest",)})
        shared = alone.model_copy(update={"allow_other_writers": True})
        appended = output.model_copy(update={"allow_other_writers": True})
        writer(rows, task_of("first", alone), settings)
        writer(rows, task_of("first", alone), settings)
        refused = [(rows, alone, "append"), (rows, shared, "append"), (rows, output, "append")]
        for frame, written, mode in [*refused, (counts, output, "complete")]:
            second = task_of("second", written, mode)
            with pytest.raises(BrokenTask, match=r"first also writes to the table .* in all these jobs") as told:
                check(frame, second.job, second.config, settings)
        check(rows, "second", task_of("second", appended).config, settings)
        writer(rows, task_of("first", shared), settings)
        check(rows, "second", task_of("second", shared).config, settings)
        spark.sql(told.value.detail.partition("If that job is deleted: ")[2])
        writer(rows, task_of("second", alone), settings)
        with pytest.raises(BrokenTask, match="second also writes to the table"):
            writer(rows, task_of("first", shared), settings)
        writer(rows, task_of("second", output), settings)
        check(rows, "first", task_of("first", alone).config, settings)
