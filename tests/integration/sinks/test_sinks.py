"""What the Delta, file and Kafka sinks promise, on real ones. A replay is a query whose last commit is gone."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from threading import Barrier
from typing import Any

import duckdb
import pytest
from confluent_kafka.admin import AdminClient
from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from penstock.cli.output_files import committed_files
from penstock.config.csv_options import CsvOutput
from penstock.config.model import DeltaOutput, FilesOutput, KafkaOutput
from penstock.control.errors import BrokenTask, NotFound, Unavailable
from penstock.local.kafka import EmbeddedKafka
from penstock.spark.settings import SparkSettings
from penstock.spark.sinks import check, writer
from penstock.spark.sinks.files import read_all
from penstock.spark.sinks.kafka import seal_series, transactional_id_prefix
from tests.support.kafka.sink import committed
from tests.support.spark.session import Feed, forget_last_commit, run_to_end, sink_task, unique
from tests.support.spark.sinks import NOWHERE, write_at_once

_SCHEMA = "dest string, delay int, at timestamp"
_AT = datetime(2013, 1, 1, 5, 15, 0, 123456)
_ROWS = [{"dest": dest, "delay": delay, "at": f"{_AT.isoformat()}Z"} for delay, dest in enumerate("ABAC")]


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    """Two batches of four rows."""
    feed = Feed(tmp_path / "feed", _SCHEMA)
    feed.add(_ROWS)
    feed.add(_ROWS)
    return feed


@pytest.fixture
def small(tmp_path: Path) -> Feed:
    """One batch of four rows."""
    feed = Feed(tmp_path / "small", _SCHEMA)
    feed.add(_ROWS)
    return feed


class TestDelta:
    def test_replay_writes_nothing_twice(self, spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
        table, checkpoint = str(tmp_path / "table"), tmp_path / "checkpoint"
        spec = sink_task(DeltaOutput(path=table))
        run_to_end(writer(feed.frame(spark), spec, NOWHERE), checkpoint)
        files = spark.read.format("delta").load(table).inputFiles()
        assert forget_last_commit(checkpoint) == 1
        run_to_end(writer(feed.frame(spark), spec, NOWHERE), checkpoint)
        assert sorted(spark.read.format("delta").load(table).inputFiles()) == sorted(files)
        feed.add(_ROWS)
        run_to_end(writer(feed.frame(spark), spec, NOWHERE), checkpoint)
        assert spark.read.format("delta").load(table).groupBy("dest").count().orderBy("dest").collect() == [
            ("A", 6),
            ("B", 3),
            ("C", 3),
        ]

    @pytest.mark.long
    def test_tasks_create_one_table_at_once_and_append_to_it(
        self, spark: SparkSession, small: Feed, tmp_path: Path
    ) -> None:
        output = DeltaOutput(path=str(tmp_path / "table"), partition_columns=("dest",))
        write_at_once(spark, [small] * 4, output, tmp_path)
        assert spark.read.format("delta").load(output.path).count() == 4 * len(_ROWS)
        detail = DeltaTable.forPath(spark, output.path).detail().collect()[0]
        assert detail["partitionColumns"] == ["dest"]

    @pytest.mark.long
    def test_complete_mode_replaces_the_table(self, spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
        output = DeltaOutput(path=str(tmp_path / "table"))
        counts = feed.frame(spark).groupBy("dest").count()
        run_to_end(writer(counts, sink_task(output, output_mode="complete"), NOWHERE), tmp_path / "checkpoint")
        rows = spark.read.format("delta").load(output.path).orderBy("dest").collect()
        assert rows == [("A", 4), ("B", 2), ("C", 2)]

    def test_other_columns_break_the_task(self, spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
        spec = sink_task(DeltaOutput(path=str(tmp_path / "table")))
        writer(feed.frame(spark), spec, NOWHERE)
        for select, words in (
            (["dest", "delay", "at", "1 AS late"], "the table has no column late"),
            (["dest", "CAST(delay AS bigint) delay"], "column delay is int in the table and bigint in the query"),
        ):
            with pytest.raises(BrokenTask, match=words):
                writer(feed.frame(spark).selectExpr(*select), spec, NOWHERE)

    @pytest.mark.parametrize(
        ("file", "error", "words"),
        [
            ("_delta_log/.00000000000000000000.json.tmp", Unavailable, "cannot be created now"),
            ("part-0.parquet", BrokenTask, "table is no Delta table and has other files and folders: part-0.parquet"),
        ],
    )
    def test_a_folder_in_which_a_table_is_being_made_is_retryable_one_with_other_files_is_not(
        self, spark: SparkSession, feed: Feed, tmp_path: Path, file: str, error: type[Exception], words: str
    ) -> None:
        path = tmp_path / "table" / file
        path.parent.mkdir(parents=True)
        path.write_bytes(b"")
        with pytest.raises(error, match=words):
            writer(feed.frame(spark), sink_task(DeltaOutput(path=str(tmp_path / "table"))), NOWHERE)

    def test_a_table_within_another_is_refused_in_plans_and_at_the_start(
        self, spark: SparkSession, feed: Feed, tmp_path: Path
    ) -> None:
        """1. Below a table. 2. Around one. Both say which, by the field and the rule of a folder that is taken."""
        there = tmp_path / "all" / "there"
        writer(feed.frame(spark), sink_task(DeltaOutput(path=str(there))), NOWHERE)
        for path, told in (
            (there / "deep" / "below", f"{there}/deep/below is in the folder of the Delta table {there}, and"),
            (tmp_path / "all", f"{tmp_path}/all is no Delta table and has other files and folders: there\\. A new"),
        ):
            spec = sink_task(DeltaOutput(path=str(path)))
            with pytest.raises(BrokenTask, match=f"^output.path: {told}") as planned:
                check(feed.frame(spark), spec.job, spec.config, NOWHERE)
            with pytest.raises(BrokenTask, match=told) as started:
                writer(feed.frame(spark), spec, NOWHERE)
            assert planned.value.extra["rule"] == started.value.extra["rule"] == "folder_taken"
        assert not (there / "deep").exists()

    @pytest.mark.long
    def test_fewer_columns_and_stricter_types_fit(self, spark: SparkSession, small: Feed, tmp_path: Path) -> None:
        spec = sink_task(DeltaOutput(path=str(tmp_path / "table")))
        run_to_end(writer(small.frame(spark), spec, NOWHERE), tmp_path / "one")
        narrow = small.frame(spark).selectExpr("coalesce(dest, '?') AS dest")
        run_to_end(writer(narrow, spec, NOWHERE), tmp_path / "two")
        assert spark.read.format("delta").load(str(tmp_path / "table")).where("delay IS NULL").count() == 4

    def test_what_it_cannot_serve_breaks_the_task(self, spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
        path = str(tmp_path / "table")
        writer(feed.frame(spark), sink_task(DeltaOutput(path=path)), NOWHERE)
        cases: list[tuple[Any, Any, str]] = [
            ({}, {"output_mode": "update"}, "the delta sink takes append or complete, not update"),
            ({}, {"output_mode": "complete", "task_count": 2}, "the job must have one task"),
            ({"partition_columns": ("origin",)}, {}, "the rows have no column origin"),
            ({"partition_columns": ("dest",)}, {}, r"partitioned by \[\], the job by \['dest'\]"),
        ]
        for output, config, words in cases:
            with pytest.raises(BrokenTask, match=words):
                writer(feed.frame(spark), sink_task(DeltaOutput(path=path, **output), **config), NOWHERE)

    @pytest.mark.parametrize(("column", "rule"), [("delay * 2", "column_name"), ("NULL AS nothing", "column_type")])
    def test_a_plan_tells_of_columns_that_no_table_takes(
        self, spark: SparkSession, feed: Feed, tmp_path: Path, column: str, rule: str
    ) -> None:
        spec = sink_task(DeltaOutput(path=str(tmp_path / "table")))
        with pytest.raises(BrokenTask) as refused:
            check(feed.frame(spark).selectExpr("dest", column), spec.job, spec.config, NOWHERE)
        assert refused.value.extra["rule"] == rule


class TestFiles:
    @pytest.mark.parametrize(
        "file_format", ["parquet", *(pytest.param(each, marks=pytest.mark.long) for each in ("json", "csv"))]
    )
    def test_replay_writes_nothing_twice(
        self, spark: SparkSession, feed: Feed, tmp_path: Path, file_format: Any
    ) -> None:
        output = FilesOutput(path=str(tmp_path / "out"), format=file_format)
        checkpoint = tmp_path / "checkpoint"
        frame = feed.frame(spark).selectExpr("*", "CAST(at AS timestamp_ntz) AS local")
        run_to_end(writer(frame, sink_task(output), NOWHERE), checkpoint)
        assert forget_last_commit(checkpoint) == 1
        run_to_end(writer(frame, sink_task(output), NOWHERE), checkpoint)
        rows = read_all(spark, output.path, file_format, f"{_SCHEMA}, local timestamp_ntz")
        assert sorted(row["delay"] for row in rows.collect()) == [0, 0, 1, 1, 2, 2, 3, 3]
        assert rows.select("at", "local").distinct().collect() == [(_AT, _AT)]

    @pytest.mark.long
    def test_csv_is_what_another_reader_expects(self, spark: SparkSession, tmp_path: Path) -> None:
        """Values with quotes, delimiters, blanks and line breaks, nulls and empty texts, read by DuckDB."""
        rows = [(1, " it's; \n"), (2, None), (3, ""), (4, '"'), (5, "\\"), (None, "'")]
        feed = Feed(tmp_path / "feed", "n int, s string")
        feed.add([{"n": n, "s": s} for n, s in rows])
        options = {"delimiter": ";", "quote": "'", "escape": "'", "null_value": "NULL", "compression": "gzip"}
        trims = {"ignore_leading_white_space": False, "ignore_trailing_white_space": False}
        csv = CsvOutput.model_validate(options | trims)
        for header in (True, False):
            output = FilesOutput(path=str(tmp_path / f"out-{header}"), format="csv", csv=csv, header=header)
            run_to_end(writer(feed.frame(spark), sink_task(output), NOWHERE), tmp_path / f"checkpoint-{header}")
            (file,) = Path(output.path).glob("g1/task-0/*.csv.gz")
            given: dict[str, Any] = {"sep": ";", "quotechar": "'", "escapechar": "'", "na_values": "NULL"}
            types = {"n": "INTEGER", "s": "VARCHAR"}
            read = duckdb.read_csv(str(file), header=header, names=[*types], dtype=types, **given)
            assert read.order("n NULLS LAST").fetchall() == rows
            (first, *_) = gzip.decompress(file.read_bytes()).decode().splitlines()
            assert (first == "n;s") is header

    def test_all_tasks_and_generations_are_read_and_stray_files_are_not(
        self, spark: SparkSession, feed: Feed, tmp_path: Path
    ) -> None:
        output = FilesOutput(path=str(tmp_path / "out"))
        for generation, index in [(1, 0), (1, 1), (2, 0)]:
            spec = sink_task(output, generation=generation, index=index, task_count=2)
            run_to_end(writer(feed.frame(spark), spec, NOWHERE), tmp_path / f"checkpoint-{generation}-{index}")
        part = next((tmp_path / "out" / "g1" / "task-0").glob("*.parquet"))
        part.with_name("part-of-a-batch-that-never-committed.parquet").write_bytes(part.read_bytes())
        assert read_all(spark, output.path).count() == 3 * 8
        assert duckdb.read_parquet(list(map(str, committed_files(Path(output.path))))).shape[0] == 3 * 8
        assert duckdb.read_parquet(f"{output.path}/*/*/*.parquet").shape[0] > 3 * 8, "as who lists the folders reads"
        # As FILES.md of the sinks shows it.
        logs = f"{output.path}/g*/task-*/_spark_metadata/[0-9]*"
        named = duckdb.sql(
            f"SELECT DISTINCT path FROM read_json('{logs}', format='newline_delimited', ignore_errors=true, "
            "columns={path: 'VARCHAR', action: 'VARCHAR'}) WHERE action = 'add'"
        )
        assert duckdb.read_parquet([path for (path,) in named.fetchall()]).shape[0] == 3 * 8

    def test_nothing_written_is_not_found(self, spark: SparkSession, tmp_path: Path) -> None:
        with pytest.raises(NotFound):
            read_all(spark, str(tmp_path / "out"))

    def test_update_mode_breaks_the_task(self, spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
        spec = sink_task(FilesOutput(path=str(tmp_path / "out")), output_mode="update")
        with pytest.raises(BrokenTask, match="the files sink takes append, not update"):
            writer(feed.frame(spark), spec, NOWHERE)


class TestKafka:
    def test_rows_keys_and_partitions(
        self, spark: SparkSession, feed: Feed, tmp_path: Path, kafka: EmbeddedKafka
    ) -> None:
        output = KafkaOutput(topic=unique("out"), key_groups=4, key_columns=("dest",))
        feed.add([{"dest": None, "delay": None, "at": None}])
        run_to_end(writer(feed.frame(spark), sink_task(output), _settings(kafka)), tmp_path / "checkpoint")
        records = read_topic(kafka.bootstrap, output.topic)
        first = {"dest": "A", "delay": 0, "at": f"{_AT.isoformat()}Z"}
        assert Counter(records)[(_PARTITIONS["A"], b"A", json.dumps(first, separators=(",", ":")))] == 2
        assert {key: partition for partition, key, _ in records} == {
            None: _PARTITIONS[None],
            **{key.encode(): partition for key, partition in _PARTITIONS.items() if key is not None},
        }
        assert [value for _, key, value in records if key is None] == ['{"dest":null,"delay":null,"at":null}']

    def test_several_key_columns_make_a_json_key(
        self, spark: SparkSession, feed: Feed, tmp_path: Path, kafka: EmbeddedKafka
    ) -> None:
        output = KafkaOutput(topic=unique("out"), key_groups=2, key_columns=("dest", "delay"))
        run_to_end(writer(feed.frame(spark), sink_task(output), _settings(kafka)), tmp_path / "checkpoint")
        keys = {key for _, key, _ in read_topic(kafka.bootstrap, output.topic)}
        assert keys == {f'{{"dest":"{dest}","delay":{delay}}}'.encode() for delay, dest in enumerate("ABAC")}

    @pytest.mark.parametrize(("delivery", "copies"), [("exactly_once", 2), ("at_least_once", 3)])
    def test_replay_repeats_the_rows_only_where_the_job_allows_it(
        self, spark: SparkSession, feed: Feed, tmp_path: Path, kafka: EmbeddedKafka, delivery: Any, copies: int
    ) -> None:
        output, checkpoint = KafkaOutput(topic=unique("out"), delivery=delivery), tmp_path / "checkpoint"
        run_to_end(writer(feed.frame(spark), sink_task(output), _settings(kafka)), checkpoint)
        forget_last_commit(checkpoint)
        run_to_end(writer(feed.frame(spark), sink_task(output), _settings(kafka)), checkpoint)
        delays = Counter(json.loads(value)["delay"] for _, _, value in read_topic(kafka.bootstrap, output.topic))
        assert delays == dict.fromkeys(range(4), copies)

    def test_the_series_of_a_task_is_sealed_by_its_name(
        self, spark: SparkSession, feed: Feed, tmp_path: Path, kafka: EmbeddedKafka
    ) -> None:
        output = KafkaOutput(topic=unique("out"))
        spec = sink_task(KafkaOutput(topic="any"), index=3, generation=7, task_count=4)
        spec = spec.model_copy(update={"config": spec.config.model_copy(update={"output": output})})
        run_to_end(writer(feed.frame(spark), spec, _settings(kafka)), tmp_path / "checkpoint")
        prefix = transactional_id_prefix("job", 3, 7)
        assert seal_series(spark, kafka.bootstrap, prefix) == [prefix] == ["penstock-job/3/7"]

    def test_tasks_create_one_topic_at_once(self, spark: SparkSession, feed: Feed, kafka: EmbeddedKafka) -> None:
        output = KafkaOutput(topic=unique("out"), key_groups=3, key_columns=("dest",))
        frame = feed.frame(spark)
        barrier = Barrier(4)

        def make(index: int) -> None:
            barrier.wait(30)
            writer(frame, sink_task(output, index=index, task_count=4), _settings(kafka))

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(make, range(4)))
        metadata = AdminClient({"bootstrap.servers": kafka.bootstrap}).list_topics(output.topic, timeout=10)
        assert len(metadata.topics[output.topic].partitions) == 3

    def test_topic_of_another_size_breaks_the_task(self, spark: SparkSession, feed: Feed, kafka: EmbeddedKafka) -> None:
        topic = unique("out")
        writer(feed.frame(spark), sink_task(KafkaOutput(topic=topic, key_groups=3)), _settings(kafka))
        with pytest.raises(BrokenTask, match=f"the topic {topic} has 3 partitions, not 4"):
            writer(feed.frame(spark), sink_task(KafkaOutput(topic=topic, key_groups=4)), _settings(kafka))

    def test_no_broker_is_retryable(self, spark: SparkSession, feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("penstock.spark.topics.ANSWER_SECONDS", 0.5)
        with pytest.raises(Unavailable, match="kafka did not describe the topics out"):
            writer(feed.frame(spark), sink_task(KafkaOutput(topic="out", key_groups=3)), NOWHERE)


def test_a_column_name_used_twice_breaks_the_task(spark: SparkSession, feed: Feed) -> None:
    frame = feed.frame(spark).selectExpr("delay", "delay AS Delay")
    with pytest.raises(BrokenTask, match="the column delay is there more than once"):
        writer(frame, sink_task(KafkaOutput(topic="out")), NOWHERE)


# pmod(hash(key), 4) of Spark 4.2: a version that hashes otherwise would send keys to other tasks' partitions.
_PARTITIONS: dict[str | None, int] = {"A": 2, "B": 1, "C": 1, None: 2}


def _settings(kafka: EmbeddedKafka) -> SparkSettings:
    return SparkSettings(checkpoint_root="", kafka_bootstrap=kafka.bootstrap, connections={})


def read_topic(bootstrap: str, topic: str) -> list[tuple[int, bytes | None, str]]:
    """All committed records of a topic: partition, key, value."""
    messages = committed(bootstrap, topic)
    return [(message.partition(), message.key(), message.value().decode()) for message in messages]
