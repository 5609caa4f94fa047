"""How records become rows: the plan, and which records Spark would misread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from penstock.config.model import Input, JobConfig
from penstock.control.errors import BrokenTask
from penstock.spark.inputs.malformed import (
    DECODED,
    MalformedRecords,
    columns,
    decoded,
    event_time_of,
    kind_of,
    reason_of,
)
from tests.support.config.jobs import job


@pytest.mark.parametrize(("name", "function"), [("json", "from_json"), ("csv", "from_csv")])
def test_a_record_is_decoded_once(spark: SparkSession, name: str, function: str) -> None:
    """Spark would push the filter for malformed records below the decoding, and decode there, too."""
    records = spark.range(3).select(
        F.col("id").cast("string").cast("binary").alias("value"), F.col("id").alias("offset"), F.lit(0)
    )
    records = records.toDF("value", "offset", "partition")
    malformed = MalformedRecords(spark, "j", JobConfig.model_validate(job()), lambda _: {})
    source = Input(topic="t", key_groups=1, format=name, value_schema="a INT, b STRING")  # type: ignore[arg-type]
    plan = malformed.rows("events", source, records).where("a > 1")._jdf.queryExecution().optimizedPlan().toString()
    assert plan.count(f"{function}(") == 1


SCHEMA = (
    "b BIGINT, t TINYINT, d DOUBLE, f FLOAT, s STRING, ts TIMESTAMP, nn TIMESTAMP_NTZ, da DATE, level STRING, "
    "at ARRAY<TIMESTAMP>, ad ARRAY<DOUBLE>, mt MAP<STRING, TINYINT>, md MAP<STRING, DOUBLE>, "
    "st STRUCT<t: TINYINT, l: ARRAY<STRUCT<d: DATE>>>, dc DECIMAL(9, 2), "
    "`o'd``d` TINYINT, `b\\s` TINYINT, `n\xa0b` TINYINT"
)
WHOLE = (
    b'{"b": 1, "t": -5, "d": 1e9, "s": "Inf}{", "at": ["2024-01-01", null], "md": {"x": 1}, "st": {"t": -128}}\n',
    b'{"d": Infinity, "f": "-INF", "md": {"x": NaN}, "ts": 253402300799, "da": "0001-01-01", "o\'d`d": -1}',
    '{"s": "é", "ts": "9999-12-31 23:59:59", "nn": "2024-01-01", "da": "9999-12-31"}'.encode(),
    b"{'b': 1}",
    b'{"dc": "1,234.5", "s": "1,5", "ad": [1,2]}',
    b"{}",
    b'{"b": 1}\x00',
    b'{"b": 1}\xef\xbb\xbf',
    b'{"b": 1}\x0c;,',
    b'{"ts": "9999-12-31T23:59:59-05:00", "b": 1715486400000}',
    b'{"ts": "0001-01-01T00:00:00+01:00"}',
    b'{"t": 200, "t": -5, "o\'d`d": -1, "b\\\\s": -1, "n\xc2\xa0b": -1, "mt": {"x": -3}}',
    b'{"ad": [1, -Infinity, "+INF"], "level": "INFO", "d": +Infinity, "ts": 1715486400}',
)
NOT_UTF_8, MORE, RANGE = (
    "the value is not UTF-8",
    "after the JSON object come 8 more bytes, from byte ",
    "out of the range of their types",
)
NO_JSON = "the value is not JSON"
MISREAD = {
    b'{"b": 1}{"b": 2}': f"{MORE}8: one record holds one object",
    b'{"b": 1}\n{"b": 2}': f"{MORE}9: one record holds one object",
    b"[2024-01-01] ERROR x": NO_JSON,
    b"{'b': 'x'}": "these fields do not fit value_schema: b bigint",
    b"[1]": "the value does not fit value_schema",
    b'{"s": "\xe9"}': NOT_UTF_8,
    b'{"b": 1, "t": 128}': f"{RANGE}, or of the years 1 to 9999: t",
    b'{"t": -5, "t": 200}': ": t",
    b'{"o\'d`d": 200}': ": o'd`d",
    b'{"b\\\\s": 200}': ": b\\s",
    b'{"n\xc2\xa0b": 200}': ": n\xa0b",
    b'{"mt": {"x": 200}}': ": mt",
    b'{"d": 1e400}': ": d",
    b'{"level": "INFO", "d": 1e400, "s": ": Infinity"}': ": d",
    b'{"f": NaN, "d": 1e400, "s": "INF"}': ": d",
    b'{"ad": [1, 1e400, "+INF"]}': ": ad",
    b'{"f": -1e300, "ts": 1700000000000}': "ts: 1700000000000 would be the year 55840. A TIMESTAMP takes whole "
    f"seconds: declare BIGINT and use timestamp_millis(ts); {RANGE}, or of the years 1 to 9999: f",
    b'{"ts": 1715486400000000}': "use timestamp_micros(ts)",
    b'{"ts": -1715486400000000}': "use timestamp_micros(ts)",
    b'{"ts": 1729000000000000000}': "use timestamp_micros(ts div 1000)",
    b'{"ts": "12024-01-01"}': "ts: 12024-01-01 is out of the years 1 to 9999",
    b'{"dc": "12,50"}': "dc: 12,50 has a comma that separates no thousands",
    b'{"da": "19000"}': ": da",
    b'{"nn": "12024-01-01"}': ": nn",
    b'{"at": ["2024-01-01", 1700000000000]}': ": at",
    b'{"at": [1715486400000000]}': ": at",
    b'{"md": {"x": 1e400}}': ": md",
    b'{"st": {"t": 200}}': ": st",
    b'{"st": {"t": 1, "l": [{"d": "12024-01-01"}]}}': ": st",
}


@pytest.mark.parametrize(
    ("form", "schema", "whole", "misread"),
    [
        ({"format": "json"}, SCHEMA, WHOLE, MISREAD),
        (
            {"format": "csv"},
            "d DOUBLE, ts TIMESTAMP, s STRING",
            (b"1e9,2024-01-01,x", b"-Infinity,2024-01-01,x"),
            {b"1e400,2024-01-01,INF": ": d", b"1,12024-01-01,x": "ts: 12024-01-01", b"1,2024-01-01,\xe9": NOT_UTF_8},
        ),
        (
            {"format": "csv", "csv": {"delimiter": ";", "quote": "'", "escape": "'", "null_value": "NULL"}},
            "d DOUBLE, t TINYINT, ts TIMESTAMP, s STRING",
            (
                b"-Infinity;-5;2024-01-01;'1,700000000000;it''s'",
                b"NULL;NULL;NULL;NULL",
                b"1;-5;NULL;1700000000000",
                b"1;;;",
                b"'Infinity';-1;2024-01-01;NULL",
            ),
            {
                b"1e400;NULL;NULL;Infinity": ": d",
                b"NULL;200;NULL;-5": "these fields do not fit value_schema: t tinyint",
                b"NULL;NULL;12024-01-01;NULL": "ts: 12024-01-01",
                b"1;1;2024-01-01": "the line does not have 4 values",
                b"1;1;2024-01-01;a;b": "the line does not have 4 values",
                b"": "the line does not have 4 values",
                b"null;1;2024-01-01;a": "value_schema: d double",
                b"1,1,2024-01-01,a": "value_schema: d double",
            },
        ),
        (
            {"format": "csv", "csv": {"delimiter": ";"}},
            "p DECIMAL(12, 3), s STRING",
            (b"1,234,567.5;1,5", b"-12,000;x", b"12.50;1,5"),
            {
                b"12,50;x": "p: 12,50 has a comma that separates no thousands",
                b"1,,5;x": "p: 1,,5 has a comma",
                b"1.234,56;x": "p: 1.234,56 has a comma",
            },
        ),
        pytest.param(
            {"format": "csv", "csv": {"delimiter": "\\t|", "quote": "", "ignore_leading_white_space": True}},
            "d DOUBLE, t TINYINT",
            (b"  -Infinity\\t| -5", b"NaN\\t|"),
            {b"  1e400\\t| -5": ": d", b'"1"\\t|1': "value_schema: d double"},
            marks=pytest.mark.long,
        ),
    ],
)
def test_what_spark_would_take_for_another_value_is_malformed(
    spark: SparkSession, form: dict[str, Any], schema: str, whole: Sequence[bytes], misread: Mapping[bytes, str]
) -> None:
    """Spark reads each of these records without an error. Beside them, values that look alike and are right."""
    source = Input.model_validate({"topic": "t", "key_groups": 1, "value_schema": schema, **form})
    values = [(bytearray(value),) for value in (*whole, *misread)]
    records = spark.createDataFrame(values, "value binary").withColumn(DECODED, decoded(spark, source))
    found = records.select("value", DECODED, kind_of(spark, source).alias("kind"))
    rows = found.select("value", "kind", reason_of(spark, source).alias("why")).collect()
    told = {bytes(row.value): row.why if row.kind else None for row in rows}
    assert {value for value, why in told.items() if why is None} == set(whole)
    assert {value: why for value, why in misread.items() if why not in str(told[value])} == {}


@pytest.mark.parametrize(
    ("name", "whole", "huge"),
    [
        (
            "json",
            [b'{"p": 12.5, "s": "1e9999999"}', b'{"p": "1e2", "l": [{"x": 1}]}', b'{"s": 1e9999999}'],
            [
                b'{"p": 1e9999999, "s": "x"}',
                b'{"s": "x", "p": "-1E-9999999"}',
                b"{'l': [{'x': 1e+9999999}], 's': 'x'}",
                b'{"q": {"k": 1e9999999}, "s": "x"}',
            ],
        ),
        ("csv", [b"12.5,1e9999999", b"1e2,x"], [b"1e9999999,x", b'"1e-9999999",x', b"1" * 100_000 + b",x"]),
    ],
)
def test_a_number_that_would_keep_spark_busy_for_minutes_is_malformed(
    spark: SparkSession, name: str, whole: list[bytes], huge: list[bytes]
) -> None:
    """Spark takes minutes for `1e9999999` as DECIMAL. In the place of another type it costs nothing."""
    schema = "p DECIMAL(7, 2), s STRING"
    if name == "json":
        schema += ", l ARRAY<STRUCT<x: DECIMAL(3, 0)>>, q MAP<STRING, DECIMAL(3, 0)>"
    source = Input(topic="t", key_groups=1, format=name, value_schema=schema)  # type: ignore[arg-type]
    values = [(bytearray(value),) for value in (*whole, *huge)]
    records = spark.createDataFrame(values, "value binary").withColumn(DECODED, decoded(spark, source))
    found = records.select("value", DECODED, kind_of(spark, source).alias("kind"))
    rows = found.select(
        "value", "kind", reason_of(spark, source).alias("why"), f"{DECODED}.s", f"{DECODED}.p"
    ).collect()
    told = {bytes(row.value): row.why for row in rows if row.kind}
    assert set(told) == set(huge)
    assert {row.s for row in rows if row.kind} == {"x"}
    assert {row.p for row in rows if row.kind} == {None}
    assert all("in the place of a DECIMAL has 1,000 digits" in why for why in told.values())


TIMED = {"event_time_column": "AT", "watermark_delay": "1 hour", "value_schema": "n INT, at TIMESTAMP"}
NOON = 1_704_110_400_000


@pytest.mark.parametrize(
    ("name", "form", "whole", "wrong"),
    [
        ("json", "epoch_seconds", [b'{"at": 1704110400}'], [b'{"at": 1704110400000}', b'{"at": 1704110400.5}']),
        ("json", "epoch_millis", [b'{"at": 1704110400000}'], [b'{"at": "1704110400000"}', b'{"at": "2024-01-01"}']),
        (
            "json",
            "epoch_millis",
            [],
            [b'{"at": 9223372036854775807}', b'{"at": 92233720368547758070}', b'{"at": true}'],
        ),
        ("json", "dd/MM/yyyy HH:mm", [b'{"at": "01/01/2024 12:00"}'], [b'{"at": "2024-01-01"}', b'{"at": 1704110400}']),
        ("json", "yyyyMMddHHmm", [b'{"at": 202401011200}', b'{"at": "202401011200"}'], [b'{"at": "2024"}']),
        ("json", "yyyy-MM-dd'T'HH:mmXXX", [b'{"at": "2024-01-01T14:00+02:00"}'], [b'{"at": ""}', b'{"at": {"a": 1}}']),
        ("csv", "epoch_millis", [b"1,1704110400000"], [b"1,2024-01-01", b"1,1704110400000.5", b"1,1704110400000000"]),
        ("csv", "dd.MM.yyyy HH:mm", [b"1,01.01.2024 12:00"], [b"1,1704110400", b"1,32.01.2024 12:00"]),
    ],
)
def test_an_event_time_of_another_form_than_its_format_is_malformed(
    spark: SparkSession, name: str, form: str, whole: list[bytes], wrong: list[bytes]
) -> None:
    """Each whole record is noon of 2024-01-01; Kafka's source reads each JSON record as the query does."""
    source = Input.model_validate({"topic": "t", "key_groups": 1, "format": name, "event_time_format": form, **TIMED})
    records = spark.createDataFrame([(bytearray(value),) for value in (*whole, *wrong)], "value binary")
    found = records.withColumn(DECODED, decoded(spark, source)).withColumn("kind", kind_of(spark, source))
    told = found.withColumn("why", reason_of(spark, source)).withColumn("event_time", event_time_of(source))
    rows = columns(told, source, "value", "kind", "why", F.unix_millis("event_time").alias("event_millis"))
    assert [field.dataType.simpleString() for field in rows.schema.fields[-2:]] == ["int", "timestamp"]
    told_of = {bytes(row.value): row for row in rows.withColumn("at", F.unix_millis("at")).collect()}
    read = [(told_of[value].kind, told_of[value]["at"], told_of[value].event_millis) for value in whole]
    assert read == [(0, NOON, NOON)] * len(whole)
    assert [value for value in wrong if told_of[value].kind != 1] == []
    assert [value for value in wrong if not told_of[value].why] == []
    if name == "json":
        assert [_of_the_source(spark, form, value) for value in (*whole, *wrong)] == [NOON] * len(whole) + [None] * len(
            wrong
        )


def test_an_absent_event_time_is_null_and_a_bad_pattern_is_named(spark: SparkSession) -> None:
    """Also a column that is declared as the number that the record has: the query would see another type."""
    source = Input.model_validate({"topic": "t", "key_groups": 1, "event_time_format": "epoch_millis", **TIMED})
    records = spark.createDataFrame([(bytearray(b'{"n": 1}'),), (None,)], "value binary")
    found = records.withColumn(DECODED, decoded(spark, source)).withColumn("kind", kind_of(spark, source))
    assert [tuple(row) for row in columns(found, source, "kind").collect()] == [(3, 1, None), (0, None, None)]
    with pytest.raises(BrokenTask, match="event_time_format: 'yyyy-bb' is no datetime pattern"):
        decoded(spark, source.model_copy(update={"event_time_format": "yyyy-bb"}))
    with pytest.raises(BrokenTask, match="declare AT as TIMESTAMP"):
        decoded(spark, source.model_copy(update={"value_schema": "n INT, at BIGINT"}))


def _of_the_source(spark: SparkSession, form: str, value: bytes) -> int | None:
    """The event time in milliseconds that the source takes for its horizon."""
    jvm: Any = spark._jvm
    times = jvm.io.penstock.kafka.source.broker.FieldTimes.of(form, jvm.java.time.ZoneOffset.UTC)
    node = jvm.com.fasterxml.jackson.databind.ObjectMapper().readTree(value.decode())
    found = times.millisOf(node.get("at"))
    return found.getAsLong() if found.isPresent() else None
