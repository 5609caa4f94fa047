"""Values of JSON and CSV: times by a format, lines as Penstock and Python read them, keys, and what is refused."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.config.model import FilesOutput, Input, KafkaOutput
from penstock.control.errors import BrokenTask
from penstock.spark.inputs.malformed import DECODED, columns, decoded, kind_of
from penstock.spark.sinks import check, writer
from penstock.spark.sinks.kafka import records, value_of
from tests.support.spark.session import Feed, run_to_end, sink_task
from tests.support.spark.sinks import NOWHERE

Time = Callable[[datetime], Any]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TIMES = [EPOCH - timedelta(microseconds=1), EPOCH, datetime(2026, 11, 28, 19, 30, 1, 999_999, tzinfo=UTC)]
NESTED = [
    "at",
    "IF(at < 'epoch', NULL, named_struct('at', at, 'n', 1)) AS one",
    "array(at, NULL) AS some",
    "map('k', named_struct('at', array(at))) AS many",
    "CAST(NULL AS TIMESTAMP) AS none",
    "DATE '2026-11-28' AS day",
]
FORMATS: list[tuple[str | None, Time]] = [
    ("epoch_seconds", lambda at: (at - EPOCH) // timedelta(seconds=1)),
    ("epoch_millis", lambda at: (at - EPOCH) // timedelta(milliseconds=1)),
    ("dd/MM/yyyy HH:mm:ss.SSSSSS", lambda at: at.strftime("%d/%m/%Y %H:%M:%S.%f")),
    ("yyyy-MM-dd'T'HH:mm:ssX", lambda at: at.strftime("%Y-%m-%dT%H:%M:%SZ")),
    (None, lambda at: at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")),
]
RFC = {"escape": '"', "null_value": r"\N"}
_OWN_COLUMNS = 2
WHOLE = {"ignore_leading_white_space": False, "ignore_trailing_white_space": False}
TEXTS = [
    "", " ", "  a ", "a,b", 'say "hi"', '"', '""', "a\nb", "a\r\nb", "\n", "it's", "\\", "a\\", "a,\\", '\\"', ",", "é",
    "日本", "\U0001f600", "#c", "\t", "NULL", "null", "\x01", "\u2028", "\ufeff", "-", " , ", ' "x" ',
]  # fmt: skip


def output(**more: Any) -> KafkaOutput:
    return KafkaOutput.model_validate({"topic": "out", **more})


def written(frame: DataFrame, to: KafkaOutput) -> list[str]:
    """The values of the rows, in their order."""
    value = value_of(frame, to, "", registers=False)
    return [row.value for row in records(frame.coalesce(1), to, value).collect()]


def times(spark: SparkSession) -> DataFrame:
    micros = [((at - EPOCH) // timedelta(microseconds=1),) for at in TIMES]
    return spark.createDataFrame(micros, "m bigint").selectExpr("timestamp_micros(m) AS at")


def read_back(spark: SparkSession, values: list[str], schema: str, options: dict[str, Any]) -> Iterator[Any]:
    """The rows as an input with these options has them; None for a malformed one."""
    fields = {"topic": "t", "key_groups": 1, "format": "csv", "value_schema": schema, "csv": options}
    source = Input.model_validate(fields)
    frame = spark.createDataFrame([(bytearray(each.encode()),) for each in values], "value binary").coalesce(1)
    found = frame.select("value", decoded(spark, source).alias(DECODED)).withColumn("kind", kind_of(spark, source))
    for row in found.collect():
        yield None if row.kind else tuple(row[DECODED])[:-_OWN_COLUMNS]


@pytest.mark.parametrize(("timestamp_format", "wanted"), FORMATS)
def test_times_of_json_at_any_depth(spark: SparkSession, timestamp_format: str | None, wanted: Time) -> None:
    """Python has the same times, floored. A null stays null, also as a struct; a date is no time."""
    found = written(times(spark).selectExpr(*NESTED), output(timestamp_format=timestamp_format))
    for text, at in zip(found, TIMES, strict=True):
        told = wanted(at)
        assert json.loads(text) == {
            "at": told,
            "one": None if at < EPOCH else {"at": told, "n": 1},
            "some": [told, None],
            "many": {"k": {"at": [told]}},
            "none": None,
            "day": "2026-11-28",
        }


@pytest.mark.parametrize(("timestamp_format", "wanted"), FORMATS)
def test_times_of_csv(spark: SparkSession, timestamp_format: str | None, wanted: Time) -> None:
    to = output(value_format="csv", timestamp_format=timestamp_format)
    assert written(times(spark).selectExpr("1 AS n", "at"), to) == [f"1,{wanted(at)}" for at in TIMES]


@pytest.mark.parametrize("timestamp_format", ["epoch_millis", "epoch_seconds", "dd/MM/yyyy HH:mm:ss.SSSSSS"])
def test_an_input_reads_such_times(spark: SparkSession, timestamp_format: str) -> None:
    """By `event_time_format` of the same words: to the last digit that was written."""
    values = written(times(spark), output(timestamp_format=timestamp_format))
    fields = {"event_time_column": "at", "event_time_format": timestamp_format, "watermark_delay": "1 hour"}
    source = Input.model_validate({"topic": "t", "key_groups": 1, "value_schema": "at TIMESTAMP", **fields})
    frame = spark.createDataFrame([(bytearray(each.encode()),) for each in values], "value binary").coalesce(1)
    rows = columns(frame.withColumn(DECODED, decoded(spark, source)), source).selectExpr("unix_micros(at)").collect()
    step = {"epoch_seconds": 1_000_000, "epoch_millis": 1_000}.get(timestamp_format, 1)
    assert [row[0] for row in rows] == [(at - EPOCH) // timedelta(microseconds=1) // step * step for at in TIMES]


def test_local_times_have_a_pattern_without_a_zone(spark: SparkSession) -> None:
    frame = spark.sql("SELECT TIMESTAMP_NTZ '2026-11-28 19:30:00' AS at")
    assert written(frame, output(timestamp_format="dd.MM.yyyy HH:mm 'Z'")) == ['{"at":"28.11.2026 19:30 Z"}']


@pytest.mark.parametrize("value_format", ["json", "csv"])
@pytest.mark.parametrize(
    ("columns", "more", "told"),
    [
        (
            "TIMESTAMP_NTZ '2026-11-28 19:30:00' AS at",
            {"timestamp_format": "epoch_millis"},
            "column at has local times",
        ),
        (
            "TIMESTAMP_NTZ '2026-11-28 19:30:00' AS at",
            {"timestamp_format": "yyyy-MM-dd X"},
            "column at has local times",
        ),
        ("now() AS at", {"timestamp_format": "epoch_millis", "key_columns": ["at"]}, "the column at, a key, has times"),
        ("now() AS at", {"timestamp_format": "yyyy-MM-dd qqqqqq"}, "yyyy-MM-dd qqqqqq is no pattern of Spark: "),
        ("now() AS at", {"timestamp_format": "YYYY-MM-dd yyyy"}, "YYYY-MM-dd yyyy is no pattern of Spark: "),
    ],
)
def test_a_plan_refuses_what_cannot_be_written(
    spark: SparkSession, value_format: str, columns: str, more: dict[str, Any], told: str
) -> None:
    with pytest.raises(BrokenTask, match=r"^output\.timestamp_format") as refused:
        value_of(spark.sql(f"SELECT {columns}"), output(value_format=value_format, **more), "", registers=False)
    assert told in refused.value.detail


def test_a_map_by_times_is_refused(spark: SparkSession) -> None:
    frame = spark.sql("SELECT array(map(now(), 1)) AS many")
    with pytest.raises(BrokenTask, match=r"the column many has a map with times for keys"):
        value_of(frame, output(timestamp_format="epoch_millis"), "", registers=False)


@pytest.mark.long
@pytest.mark.parametrize("file_format", ["json", "csv"])
@pytest.mark.parametrize(("timestamp_format", "wanted"), FORMATS[:3])
def test_times_in_files(
    spark: SparkSession, tmp_path: Path, file_format: Any, timestamp_format: str, wanted: Time
) -> None:
    """DuckDB reads them."""
    feed = Feed(tmp_path / "feed", "at timestamp")
    feed.add([{"at": at.isoformat()} for at in TIMES])
    to = FilesOutput(path=str(tmp_path / "out"), format=file_format, timestamp_format=timestamp_format)
    check(feed.frame(spark), "job", sink_task(to).config, NOWHERE)
    run_to_end(writer(feed.frame(spark), sink_task(to), NOWHERE), tmp_path / "checkpoint")
    (file,) = Path(to.path).glob(f"g1/task-0/*.{file_format}")
    read = duckdb.sql(f"SELECT \"at\" FROM read_{file_format}('{file}', columns={{'at': 'VARCHAR'}})")
    assert sorted(row[0] for row in read.fetchall()) == sorted(str(wanted(at)) for at in TIMES)


def test_files_refuse_what_records_refuse(spark: SparkSession, tmp_path: Path) -> None:
    to = FilesOutput(path=str(tmp_path / "out"), format="csv", timestamp_format="epoch_millis")
    frame = spark.sql("SELECT TIMESTAMP_NTZ '2026-11-28 19:30:00' AS at")
    with pytest.raises(BrokenTask, match="the column at has local times"):
        check(frame, "job", sink_task(to).config, NOWHERE)


def test_a_quote_is_escaped_by_a_backslash_unless_the_escape_is_the_quote(spark: SparkSession) -> None:
    """As the fields' docs say. Python's reader goes by RFC 4180: it misreads what is written by default."""
    text = 'say "hi" now'
    frame = spark.createDataFrame([(text,)], "text string")
    for options, line, is_right in (({}, r'"say \"hi\" now"', False), ({"escape": '"'}, '"say ""hi"" now"', True)):
        assert written(frame, output(value_format="csv", csv=options)) == [line]
        assert list(read_back(spark, [line], "text string", options)) == [(text,)]
        assert (next(csv.reader(io.StringIO(line))) == [text]) is is_right
    (misread,) = read_back(spark, ['"say ""hi"" now"'], "text string", {})
    assert misread != (text,)


@pytest.mark.parametrize(
    "more", [{}, {"delimiter": ";", "quote": "'", "escape": "'"}, {"delimiter": "||x"}, {"escape": "\\"}]
)
def test_texts_of_csv_come_back(spark: SparkSession, more: dict[str, Any]) -> None:
    """Quotes, delimiters, line breaks, blanks, nulls and empty texts: by Penstock's own reader, and by Python's where
    quotes are doubled."""
    options, texts = RFC | WHOLE | more, [None, *TEXTS]
    frame = spark.createDataFrame([(n, text) for n, text in enumerate(texts)], "n int, s string")
    values = written(frame, output(value_format="csv", csv=options))
    read = {name: value for name, value in options.items() if name not in WHOLE}
    assert list(read_back(spark, values, "n INT, s STRING", read)) == list(enumerate(texts))
    if len(options.get("delimiter", ",")) == 1 and options["escape"] != "\\":
        dialect: dict[str, Any] = {"delimiter": options.get("delimiter", ","), "quotechar": options.get("quote", '"')}
        rows = [row for value in values for row in csv.reader(io.StringIO(value, newline=""), **dialect)]
        assert rows == [[str(n), r"\N" if text is None else text] for n, text in enumerate(texts)]


def test_a_row_of_one_null_is_an_empty_record_and_no_deletion(spark: SparkSession) -> None:
    """Spark makes null of it, by which a compacted topic would forget the key."""
    frame = spark.createDataFrame([(None,), ("",), ("a",)], "s string")
    values = written(frame, output(value_format="csv"))
    assert values == ["", '""', "a"]
    assert list(read_back(spark, values, "s STRING", {})) == [(None,), (None,), ("a",)]
    empty = {"null_value": "-"}
    assert written(frame, output(value_format="csv", csv=empty)) == ["-", '""', "a"]
    assert list(read_back(spark, ["-", '""', "a"], "s STRING", empty)) == [(None,), ("",), ("a",)]


def test_numbers_of_csv_come_back(spark: SparkSession) -> None:
    schema = "i INT, l BIGINT, d DOUBLE, f FLOAT, p DECIMAL(38, 18), b BOOLEAN, at TIMESTAMP, nn TIMESTAMP_NTZ, da DATE"
    large = Decimal("12345678901234567890.123456789012345678")
    at = datetime(2026, 11, 28, 19, 30, 1, 123_456)
    rows = [
        (-(2**31), 2**63 - 1, 1e-300, 0.5, large, True, at, at, at.date()),
        (None,) * 9,
        (0, 0, float("-inf"), float("nan"), -large, False, at, at, at.date()),
    ]
    frame = spark.createDataFrame(rows, schema)
    values = written(frame, output(value_format="csv"))
    assert str(list(read_back(spark, values, schema, {}))) == str([tuple(row) for row in frame.collect()])
    assert Decimal(next(csv.reader([values[0]]))[4]) == large


@pytest.mark.parametrize(
    ("column", "told"),
    [
        ("X'00' AS b", "csv has no bytes, as the column b is: write hex(b) or base64(b)"),
        ("array(1) AS a", "the columns of the query do not fit CSV"),
        ("named_struct('n', 1) AS s", "the columns of the query do not fit CSV"),
    ],
)
def test_csv_has_one_value_a_column(spark: SparkSession, column: str, told: str) -> None:
    with pytest.raises(BrokenTask, match=r"^output\.value_format: ") as refused:
        value_of(spark.sql(f"SELECT {column}"), output(value_format="csv"), "", registers=False)
    assert (refused.value.extra["rule"], told in refused.value.detail) == ("columns_of_csv", True)


@pytest.mark.parametrize("options", [{}, RFC, RFC | WHOLE, {"null_value": "NULL"}, {"empty_value": "-"}])
def test_a_row_is_in_the_partition_of_the_key_that_is_read_back(spark: SparkSession, options: dict[str, Any]) -> None:
    """CSV leaves out blanks, and has a null and a text that is written in the same way but once."""
    to = output(value_format="csv", csv=options, key_columns=["s"], key_groups=1_000)
    frame = spark.createDataFrame([(n, text) for n, text in enumerate([None, *TEXTS])], "n int, s string").coalesce(1)
    found = records(frame, to, value_of(frame, to, "", registers=False)).collect()
    read = {name: value for name, value in options.items() if name not in (*WHOLE, "empty_value")}
    back = [row[1] if row else None for row in read_back(spark, [row.value for row in found], "n INT, s STRING", read)]
    wanted = spark.createDataFrame([(text,) for text in back], "s string").coalesce(1)
    hashes = [row[0] for row in wanted.select(F.pmod(F.hash("s"), F.lit(1_000))).collect()]
    assert [(row.key, row.partition) for row in found] == list(zip(back, hashes, strict=True))
