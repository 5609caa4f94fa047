"""`output.headers`: what becomes of the column, in both deliveries and all formats, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.config.keygroups import KeyGroupRange
from penstock.config.model import DeltaOutput, Input, KafkaOutput, SideOutput
from penstock.control.errors import BrokenTask
from penstock.local.kafka import EmbeddedKafka
from penstock.spark.settings import SparkSettings
from penstock.spark.sinks import check, writer
from penstock.spark.sinks.kafka import records, value_of
from penstock.spark.sources import read_input
from tests.support.kafka.sink import committed
from tests.support.spark.hosts import make_topic
from tests.support.spark.session import Feed, delays, run_to_end, sink_task
from tests.support.spark.sinks import NOWHERE
from tests.unit.config.test_protobuf import NAME, TEXT

_MAP = "map('trace', dest, 'none', NULL)"
_ARRAY = "array(struct(X'01' AS value, 'trace' AS key), struct(X'02' AS value, 'trace' AS key))"
_HEADERS: dict[str, list[Any]] = {
    _MAP: [[("trace", dest.encode()), ("none", None)] for dest in "ABAC"],
    _ARRAY: [[("trace", b"\x01"), ("trace", b"\x02")]] * 4,
}
_VALUE = {"dest", "delay"}


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    return delays(tmp_path / "feed")


@pytest.fixture
def settings(kafka: EmbeddedKafka) -> SparkSettings:
    return SparkSettings(checkpoint_root="", kafka_bootstrap=kafka.bootstrap, connections={})


@pytest.mark.parametrize(
    ("delivery", "headers"),
    [("exactly_once", _MAP), ("at_least_once", _ARRAY), pytest.param("exactly_once", _ARRAY, marks=pytest.mark.long)],
)
def test_headers_are_what_an_input_reads_again(
    spark: SparkSession, settings: SparkSettings, feed: Feed, tmp_path: Path, delivery: Any, headers: str
) -> None:
    """1. Records with headers, and one without (null). 2. The column is no part of the value. 3. An input has them."""
    topic = make_topic(settings.kafka_bootstrap, 1)
    output = KafkaOutput(topic=topic, delivery=delivery, headers="h", key_columns=("dest",))
    frame = feed.frame(spark).selectExpr("*", f"IF(delay = 2, NULL, {headers}) AS h")
    run_to_end(writer(frame, sink_task(output), settings), tmp_path / "checkpoint")
    expected = dict(enumerate(_HEADERS[headers])) | {2: None}
    values, found = _written(settings, topic)
    assert (values, found) == (_VALUE, expected)
    source = Input(topic=topic, key_groups=1, value_schema="delay INT", metadata_columns={"headers": "h"})
    assert _read(read_input(spark, "again", source, KeyGroupRange(0, 1), settings, {}), tmp_path) == expected


@pytest.mark.long
def test_a_side_output_has_headers_of_its_own(
    spark: SparkSession, settings: SparkSettings, feed: Feed, tmp_path: Path
) -> None:
    topic = make_topic(settings.kafka_bootstrap, 1)
    columns = ("dest", "delay", f"{_MAP} AS h")
    few = SideOutput(columns=columns, output=KafkaOutput(topic=topic, headers="h"))
    spec = sink_task(DeltaOutput(path=str(tmp_path / "all")), side_outputs={"few": few})
    run_to_end(writer(feed.frame(spark), spec, settings), tmp_path / "checkpoint")
    assert _written(settings, topic) == (_VALUE, dict(enumerate(_HEADERS[_MAP])))


@pytest.mark.parametrize(
    "output",
    [
        KafkaOutput(topic="t", value_format="avro"),
        KafkaOutput.model_validate(
            {"topic": "t", "value_format": "protobuf", "value_schema": TEXT, "protobuf": {"message": NAME}}
        ),
    ],
    ids=lambda output: str(output.value_format),
)
def test_the_other_formats_leave_the_column_out_of_the_value_too(spark: SparkSession, output: KafkaOutput) -> None:
    frame = spark.sql(f"SELECT {_ARRAY} AS h, 'SFO' AS Dest")
    with_headers = output.model_copy(update={"headers": "h"})
    (found,) = records(frame, with_headers, value_of(frame, with_headers, "", registers=False)).collect()
    (plain,) = records(
        frame.select("Dest"), output, value_of(frame.select("Dest"), output, "", registers=False)
    ).collect()
    assert (found.value, len(found.headers)) == (plain.value, 2)


@pytest.mark.parametrize(
    ("column", "rule", "words"),
    [
        ("dest AS h", "headers_type", "the column h is string; headers are array<struct<key:string,value:binary>>"),
        ("map('a', 1) AS h", "headers_type", "the column h is map<string,int>"),
        ("array(struct('a' AS name, 'b' AS value)) AS h", "headers_type", "array<struct<name:string,value:string>>"),
        ("dest AS other", "known_column", "the rows have no column h; they have dest, other"),
    ],
)
def test_a_plan_refuses_what_are_no_headers(
    spark: SparkSession, feed: Feed, column: str, rule: str, words: str
) -> None:
    spec = sink_task(KafkaOutput(topic="out", headers="h"))
    with pytest.raises(BrokenTask) as refused:
        check(feed.frame(spark).selectExpr("dest", column), spec.job, spec.config, NOWHERE)
    assert refused.value.detail.startswith("output.headers: ")
    assert words in refused.value.detail
    assert refused.value.extra["rule"] == rule


def test_a_plan_refuses_a_record_of_headers_alone(spark: SparkSession, feed: Feed) -> None:
    spec = sink_task(KafkaOutput(topic="out", headers="h"))
    with pytest.raises(BrokenTask, match=r"^output.headers: the rows have no column but h for the value"):
        check(feed.frame(spark).selectExpr(f"{_MAP} AS h"), spec.job, spec.config, NOWHERE)


def _written(settings: SparkSettings, topic: str) -> tuple[set[str], dict[int, Any]]:
    """The columns of all values, and by `delay` the headers."""
    rows = [(json.loads(each.value() or b""), each.headers()) for each in committed(settings.kafka_bootstrap, topic)]
    return {name for value, _ in rows for name in value}, {value["delay"]: headers for value, headers in rows}


def _read(frame: DataFrame, folder: Path) -> dict[int, Any]:
    """By `delay` the headers as a query has them."""
    out = str(folder / "read")
    run_to_end(frame.writeStream.format("parquet").option("path", out), folder / "reader")
    rows = frame.sparkSession.read.parquet(out).collect()
    return {row.delay: row.h and [(each.key, each.value and bytes(each.value)) for each in row.h] for row in rows}
