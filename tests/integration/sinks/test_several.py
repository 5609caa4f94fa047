"""Several outputs of one query: what is refused, and that a repeated batch is in each place once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pydantic import TypeAdapter
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.config.model import DeltaOutput, FilesOutput, KafkaOutput, Output, PostgresOutput, SideOutput
from penstock.control.errors import BrokenTask
from penstock.local.kafka import EmbeddedKafka
from penstock.spark.analysis.problem_of import problem_of
from penstock.spark.settings import SparkSettings
from penstock.spark.sinks import check, writer
from penstock.spark.sinks.context import kept
from penstock.spark.sinks.files import read_all
from penstock.spark.sinks.foreach_batch import Batches
from penstock.spark.sinks.postgres_connections import pool_of
from tests.support.kafka.sink import committed
from tests.support.spark.hosts import make_topic
from tests.support.spark.session import DELAYS, delays, forget_last_commit, run_to_end, sink_task
from tests.support.spark.sinks import NOWHERE

_OUTPUT: TypeAdapter[Output] = TypeAdapter(Output)
_FIELD = "side_outputs.few.output"


@pytest.fixture
def settings(kafka: EmbeddedKafka, empty_database_url: str) -> Iterator[SparkSettings]:
    connections = {"default": empty_database_url}
    yield SparkSettings(checkpoint_root="", kafka_bootstrap=kafka.bootstrap, connections=connections)
    pool_of(empty_database_url).close()


@pytest.mark.parametrize(
    ("fields", "field", "rule"),
    [
        ({"where": "nope > 1"}, "where", "unresolved_column"),
        ({"where": "delay"}, "where", "datatype_mismatch"),
        ({"where": "rand() > 0.5"}, "where", "repeatable"),
        ({"where": "now() > TIMESTAMP '2026-01-01'"}, "where", "repeatable"),
        ({"where": "delay > (SELECT 1)"}, "where", "per_row"),
        ({"where": "reflect('java.lang.Runtime', 'getRuntime') = ''"}, "where", "foreign_code"),
        ({"columns": ["max(delay) AS most"]}, "columns", "per_row"),
        ({"columns": ["row_number() OVER (ORDER BY delay) AS n"]}, "columns", "per_row"),
        ({"columns": ["explode(array(1, 2)) AS n"]}, "columns", "per_row"),
        ({"columns": ["dest", "upper(dest) AS DEST"]}, "columns", "distinct_columns"),
        ({"columns": ["unix_timestamp() AS at"]}, "columns", "repeatable"),
        ({"columns": ["CAST(concat('n', 'ow') AS TIMESTAMP) AS at"]}, "columns", "repeatable"),
        ({"columns": ["date('today') AS day"]}, "columns", "repeatable"),
        ({"columns": ["to_timestamp('now') AS at"]}, "columns", "repeatable"),
        ({"columns": ["aes_encrypt(dest, '0000111122223333') AS hidden"]}, "columns", "repeatable"),
        ({"where": "registered(delay) > 1"}, "where", "foreign_code"),
        ({"where": "delay > declared"}, "where", "foreign_code"),
        ({"columns": ["from_csv(dest, 'a INT', map('mode', 'FAILFAST')).b AS b"]}, "columns", "field_not_found"),
    ],
)
def test_what_does_not_look_at_one_row_is_refused_by_what_spark_makes_of_it(
    spark: SparkSession, tmp_path: Path, fields: dict[str, Any], field: str, rule: str
) -> None:
    """Whatever the rules of the configuration, which see the text, let pass."""
    side = SideOutput(output=DeltaOutput(path=str(tmp_path / "few")), **fields)
    spec = sink_task(DeltaOutput(path=str(tmp_path / "all")), side_outputs={"few": side})
    frame = delays(tmp_path / "feed").frame(spark)
    spark.udf.register("registered", lambda value: value, "bigint")
    spark.sql("DECLARE OR REPLACE VARIABLE declared BIGINT DEFAULT 1")
    check(frame, spec.job, spec.config, NOWHERE)
    with pytest.raises(BrokenTask) as refused:
        check(frame, spec.job, spec.config, NOWHERE, _FIELD)
    problem = problem_of(refused.value, _FIELD, "can_run", "query.sql")
    assert (problem.field, problem.rule) == (f"side_outputs.few.{field}", rule)


def test_a_time_that_is_written_as_a_text_is_the_same_for_each_batch(spark: SparkSession, tmp_path: Path) -> None:
    times = ("CAST('2026-01-01' AS DATE) AS day", "to_timestamp('2026-01-01 10:00') AS at", "to_date(dest) AS of_text")
    side = SideOutput(where="dest <> 'now'", columns=times, output=DeltaOutput(path=str(tmp_path / "few")))
    spec = sink_task(DeltaOutput(path=str(tmp_path / "all")), side_outputs={"few": side})
    check(delays(tmp_path / "feed").frame(spark), spec.job, spec.config, NOWHERE, _FIELD)


def test_a_function_that_lets_go_of_its_rows_leaves_them_to_the_other_outputs(spark: SparkSession) -> None:
    """Spark's own pages have `persist` and `unpersist` in such functions."""
    counts: list[int] = []

    def lets_go(frame: DataFrame, batch_id: int) -> None:
        frame.persist()
        counts.append(frame.count())
        frame.unpersist()

    with kept(spark.range(3).select("id", F.rand().alias("chance"))) as rows:
        before = rows.collect()
        Batches("t", lets_go).write(rows, 0)
        assert (counts, rows.collect()) == ([3], before)


def test_what_a_sink_finds_names_the_output(spark: SparkSession, tmp_path: Path) -> None:
    """A plan, and the start of a task. The columns that count are those of the side output."""
    frame = delays(tmp_path / "feed").frame(spark)
    path = str(tmp_path / "few")
    run_to_end(writer(frame.select("dest"), sink_task(DeltaOutput(path=path)), NOWHERE), tmp_path / "first")
    few = SideOutput(columns=("dest", "delay"), output=DeltaOutput(path=path))
    spec = sink_task(DeltaOutput(path=str(tmp_path / "all")), side_outputs={"few": few})
    for ask in (lambda: check(frame, spec.job, spec.config, NOWHERE, _FIELD), lambda: writer(frame, spec, NOWHERE)):
        with pytest.raises(BrokenTask, match=rf"^{_FIELD}.path: .* the table has no column delay"):
            ask()
    fitting = sink_task(spec.config.output, side_outputs={"few": few.model_copy(update={"columns": ("dest",)})})
    check(frame, fitting.job, fitting.config, NOWHERE, _FIELD)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["postgres", "delta", "kafka", "files"])
def test_an_output_gets_company_and_loses_it_again(
    spark: SparkSession, settings: SparkSettings, tmp_path: Path, kind: str
) -> None:
    """The same checkpoint, each time after a batch that was not committed: alone, beside another one, alone."""
    place = {
        "delta": {"path": str(tmp_path / "all")},
        "files": {"path": str(tmp_path / "all"), "format": "json"},
        "postgres": {"table": "all_of_them"},
        "kafka": {"topic": make_topic(settings.kafka_bootstrap, 1)},
    }[kind]
    output = _OUTPUT.validate_python({"type": kind, **place})
    side = SideOutput(where="dest <> 'A'", output=DeltaOutput(path=str(tmp_path / "few")))
    alone, beside = sink_task(output), sink_task(output, side_outputs={"few": side})
    feed, checkpoint = delays(tmp_path / "feed"), tmp_path / "checkpoint"
    for spec in (alone, beside, alone):
        run_to_end(writer(feed.frame(spark), spec, settings), checkpoint)
        forget_last_commit(checkpoint)
        feed.add(DELAYS)
    found = found_in(spark, settings, output)
    assert found == Counter({dest: times * 4 for dest, times in (("A", 2), ("B", 1), ("C", 1))})
    few = spark.read.format("delta").load(str(tmp_path / "few")).collect()
    # The last batch of the first run is repeated, and one is new.
    assert Counter(row.dest for row in few) == Counter({"B": 2, "C": 2})


@pytest.mark.long
def test_rows_by_key_are_in_each_place_as_of_the_last_batch(
    spark: SparkSession, settings: SparkSettings, tmp_path: Path
) -> None:
    """1. Sums of a query with state go by key into three tables, one of which has doubles. 2. The last batch comes
    again, and then another one: only the topic at least once has the rows of that batch twice."""
    sums = delays(tmp_path / "feed")
    double = SideOutput(
        columns=("dest", "2 * delay AS delay"), output=PostgresOutput(table="doubles", upsert_columns=("dest",))
    )
    few = SideOutput(where="dest > 'A'", output=DeltaOutput(path=str(tmp_path / "few"), upsert_columns=("dest",)))
    main = DeltaOutput(path=str(tmp_path / "all"), upsert_columns=("dest",))
    again = KafkaOutput(topic=make_topic(settings.kafka_bootstrap, 1), delivery="at_least_once")
    sides = {"double": double, "few": few, "again": SideOutput(output=again)}
    spec = sink_task(main, side_outputs=sides, output_mode="update")

    def run() -> None:
        frame = sums.frame(spark).groupBy("dest").sum("delay").withColumnRenamed("sum(delay)", "delay")
        run_to_end(writer(frame, spec, settings), tmp_path / "checkpoint")

    run()
    forget_last_commit(tmp_path / "checkpoint")
    run()
    sums.add(DELAYS)
    run()
    expected = {"A": 6, "B": 3, "C": 9}
    tables = {name: spark.read.format("delta").load(str(tmp_path / name)).collect() for name in ("all", "few")}
    assert {row.dest: row.delay for row in tables["all"]} == expected
    assert {row.dest: row.delay for row in tables["few"]} == {"B": 3, "C": 9}
    with psycopg.connect(settings.connections["default"]) as connection:
        found = dict(connection.execute("SELECT dest, delay FROM doubles").fetchall())
        noted = connection.execute("SELECT job, batch_id FROM penstock_batches").fetchall()
    assert found == {dest: 2 * delay for dest, delay in expected.items()}
    assert noted == [("job/double", 2)]
    # Each of four batches, one of which came twice.
    assert found_in(spark, settings, again) == Counter(dict.fromkeys("ABC", 4))


def found_in(spark: SparkSession, settings: SparkSettings, output: Output) -> Counter[str]:
    """How many rows each `dest` has."""
    match output:
        case DeltaOutput():
            return Counter(row.dest for row in spark.read.format("delta").load(output.path).collect())
        case FilesOutput():
            rows = read_all(spark, output.path, output.format, "dest STRING").collect()
            return Counter(row.dest for row in rows)
        case PostgresOutput():
            with psycopg.connect(settings.connections["default"]) as connection:
                return Counter(row[0] for row in connection.execute("SELECT dest FROM all_of_them"))
        case KafkaOutput():
            messages = committed(settings.kafka_bootstrap, output.topic)
            return Counter(json.loads(message.value() or b"")["dest"] for message in messages)
    raise AssertionError(output)
