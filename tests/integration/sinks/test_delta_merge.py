"""The Delta sink with `upsert_columns`: each batch is merged by key exactly once, by several tasks at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from delta.tables import DeltaTable
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from penstock.config.model import DeltaOutput
from penstock.control.errors import BrokenTask
from penstock.spark.sinks import check, delta_conflicts, writer
from penstock.spark.sinks.delta_merge import DeltaMerge
from tests.support.spark.session import DELAYS, Feed, delays, forget_last_commit, run_to_end, sink_task
from tests.support.spark.sinks import NOWHERE, write_at_once


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    return delays(tmp_path / "feed")


@pytest.fixture
def output(tmp_path: Path) -> DeltaOutput:
    return DeltaOutput(path=str(tmp_path / "table"), upsert_columns=("dest",))


def sums(feed: Feed, session: SparkSession) -> DataFrame:
    return feed.frame(session).groupBy("dest").sum("delay").toDF("dest", "delay")


def rows_of(session: SparkSession, output: DeltaOutput) -> list[Any]:
    return sorted(tuple(row) for row in session.read.format("delta").load(output.path).collect())


def version_of(session: SparkSession, output: DeltaOutput) -> int:
    version: int = DeltaTable.forPath(session, output.path).history(1).collect()[0]["version"]
    return version


class TestReplay:
    @pytest.mark.long
    def test_a_batch_is_merged_once_and_state_goes_on(
        self, spark: SparkSession, output: DeltaOutput, tmp_path: Path
    ) -> None:
        """1. A batch. 2. It comes again, its state and its commit are gone: the table does not change. 3. The next one
        finds the state. 4. A batch without rows changes nothing."""
        spec, checkpoint = sink_task(output, output_mode="update"), tmp_path / "checkpoint"
        feed = Feed(tmp_path / "feed", "dest string, delay bigint")
        feed.add(DELAYS)
        run_to_end(writer(sums(feed, spark), spec, NOWHERE), checkpoint)
        assert rows_of(spark, output) == [("A", 2), ("B", 1), ("C", 3)]
        before = version_of(spark, output)
        assert forget_last_commit(checkpoint) == 0
        for version in (checkpoint / "state").rglob("1.delta"):
            version.unlink()
        run_to_end(writer(sums(feed, spark), spec, NOWHERE), checkpoint)
        assert version_of(spark, output) == before
        feed.add(DELAYS)
        run_to_end(writer(sums(feed, spark), spec, NOWHERE), checkpoint)
        assert rows_of(spark, output) == [("A", 4), ("B", 2), ("C", 6)]
        feed.add([])
        run_to_end(writer(sums(feed, spark), spec, NOWHERE), checkpoint)
        assert version_of(spark, output) == before + 1

    @pytest.mark.long
    def test_a_replaced_batch_of_a_zombie_does_not_go_back(
        self, spark: SparkSession, feed: Feed, output: DeltaOutput, tmp_path: Path
    ) -> None:
        """1. A zombie stops before its merge. 2. Its successor merges the batch and the next one. 3. The zombie goes
        on: it merges nothing."""
        spec, checkpoint = sink_task(output), tmp_path / "checkpoint"
        latest = feed.frame(spark).where("delay >= 2").selectExpr("dest", "delay + 0 AS delay")
        held = HeldMerge(spec.task_id, output)
        writer(latest, spec, NOWHERE)
        with pytest.raises(StreamingQueryException, match="held"):
            run_to_end(latest.writeStream.foreachBatch(held.write), checkpoint)
        feed.add([{"dest": "A", "delay": 7}])
        run_to_end(writer(latest, spec, NOWHERE), checkpoint)
        before = version_of(spark, output)
        held.go_on()
        assert version_of(spark, output) == before
        assert rows_of(spark, output) == [("A", 7), ("C", 3)]

    @pytest.mark.long
    def test_a_change_between_append_and_upsert_keeps_what_was_written(
        self, spark: SparkSession, feed: Feed, output: DeltaOutput, tmp_path: Path
    ) -> None:
        """The pending batch of either form is found by the other one."""
        checkpoint = tmp_path / "checkpoint"
        latest = feed.frame(spark).where("delay = 3")
        run_to_end(writer(latest, sink_task(output), NOWHERE), checkpoint)
        forget_last_commit(checkpoint)
        appended = output.model_copy(update={"upsert_columns": ()})
        run_to_end(writer(latest, sink_task(appended), NOWHERE), checkpoint)
        assert rows_of(spark, output) == [("C", 3)]
        feed.add([{"dest": "C", "delay": 3}])
        run_to_end(writer(latest, sink_task(appended), NOWHERE), checkpoint)
        with pytest.raises(BrokenTask, match="has several rows with the same dest"):
            writer(latest, sink_task(output), NOWHERE)


class HeldMerge(DeltaMerge):
    """A merge that fails when its rows are there, and merges the first batch when `go_on` is called."""

    def _merge(self, rows: DataFrame, query_id: str, batch_id: int) -> None:
        self.held = rows.sparkSession, rows.collect(), rows.schema, query_id, batch_id
        raise RuntimeError("held")

    def go_on(self) -> None:
        session, rows, schema, query_id, batch_id = self.held
        super()._merge(session.createDataFrame(rows, schema), query_id, batch_id)


@pytest.mark.long
class TestTwoAtOnce:
    @pytest.mark.parametrize("partitions", [(), ("part",)])
    def test_tasks_make_one_table_and_merge_into_it(
        self, spark: SparkSession, tmp_path: Path, partitions: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Each in a host of its own, as it were: nobody waits for a turn. With partitions nobody has to try again."""
        collisions: list[int] = []
        monkeypatch.setattr(delta_conflicts, "_log_conflict", lambda _, state: collisions.append(state.attempt_number))
        monkeypatch.setattr(delta_conflicts, "_busy", NeverBusy())
        output = DeltaOutput(
            path=str(tmp_path / "table"), upsert_columns=("part", "dest"), partition_columns=partitions
        )
        feeds = [Feed(tmp_path / f"feed-{index}", "part int, dest string, delay bigint") for index in range(3)]
        for index, feed in enumerate(feeds):
            for batch in range(2):
                feed.add([{"part": index, "dest": dest, "delay": batch} for dest in "ABC"])
        write_at_once(spark, feeds, output, tmp_path)
        assert rows_of(spark, output) == [(index, dest, 1) for index in range(3) for dest in "ABC"]
        assert not (partitions and collisions)


class NeverBusy(set[str]):
    """Turns of tasks that are not in one process."""

    def __contains__(self, item: object) -> bool:
        return False

    def remove(self, item: str) -> None:
        self.discard(item)


class TestRefused:
    @pytest.mark.long
    @pytest.mark.parametrize(
        ("rows", "words"),
        [
            ([{"dest": "D", "delay": 1}, {"dest": "D", "delay": 1}], "two rows of one batch have the same key"),
            ([{"delay": 1}], "dest is null in a row of the batch"),
        ],
    )
    def test_rows_without_a_key_break_the_task(
        self, spark: SparkSession, output: DeltaOutput, tmp_path: Path, rows: list[dict[str, Any]], words: str
    ) -> None:
        feed = Feed(tmp_path / "feed", "dest string, delay bigint")
        feed.add([{"dest": "B", "delay": 0}, *rows])
        with pytest.raises(StreamingQueryException, match=rf"errors\.BrokenTask: output\.upsert_columns: {words}"):
            run_to_end(writer(feed.frame(spark), sink_task(output), NOWHERE), tmp_path / "checkpoint")
        assert rows_of(spark, output) == []

    def test_plans_and_starts_refuse_what_is_no_key(self, spark: SparkSession, feed: Feed, output: DeltaOutput) -> None:
        frame = feed.frame(spark).selectExpr("*", "map(dest, delay) AS delays")
        cases: list[tuple[dict[str, Any], dict[str, Any], str]] = [
            ({"upsert_columns": ("origin",)}, {}, "the rows have no column origin"),
            ({"upsert_columns": ("delays",)}, {}, "column delays is of type map<string,bigint>"),
            ({}, {"output_mode": "complete"}, "takes append or update, not complete"),
        ]
        for changed, config, words in cases:
            spec = sink_task(output.model_copy(update=changed), **config)
            with pytest.raises(BrokenTask, match=words):
                check(frame, spec.job, spec.config, NOWHERE)
            with pytest.raises(BrokenTask, match=words):
                writer(frame, spec, NOWHERE)

    @pytest.mark.long
    def test_a_table_with_another_key_or_with_a_key_twice_is_refused(
        self, spark: SparkSession, feed: Feed, output: DeltaOutput
    ) -> None:
        """What the refusal tells takes the key away."""
        spark.sql("SELECT 'A' AS dest, 1L AS delay UNION ALL SELECT 'A', 2L").write.format("delta").save(output.path)
        frame = feed.frame(spark)
        with pytest.raises(BrokenTask, match="several rows with the same dest"):
            check(frame, "job", sink_task(output).config, NOWHERE)
        by_both = output.model_copy(update={"upsert_columns": ("delay", "dest")})
        writer(frame, sink_task(by_both), NOWHERE)
        writer(frame, sink_task(output.model_copy(update={"upsert_columns": ("dest", "delay")})), NOWHERE)
        with pytest.raises(BrokenTask, match=r"the key of the table .* is delay, dest") as told:
            writer(frame, sink_task(output), NOWHERE)
        spark.sql(told.value.detail.partition("If the table is to get another key: ")[2])
        with pytest.raises(BrokenTask, match="several rows with the same dest"):
            writer(frame, sink_task(output), NOWHERE)


@pytest.mark.long
def test_other_columns_of_the_table_are_kept(spark: SparkSession, output: DeltaOutput, tmp_path: Path) -> None:
    """A query that gives the key and one of two columns; and one that gives the key alone."""
    spark.sql("SELECT 'A' AS dest, 1L AS delay, 'x' AS note").write.format("delta").save(output.path)
    feed = Feed(tmp_path / "feed", "dest string, delay bigint")
    feed.add([{"dest": "A", "delay": 5}, {"dest": "B", "delay": 6}])
    run_to_end(writer(feed.frame(spark), sink_task(output), NOWHERE), tmp_path / "one")
    assert rows_of(spark, output) == [("A", 5, "x"), ("B", 6, None)]
    run_to_end(writer(feed.frame(spark).select("dest"), sink_task(output), NOWHERE), tmp_path / "two")
    assert rows_of(spark, output) == [("A", 5, "x"), ("B", 6, None)]
