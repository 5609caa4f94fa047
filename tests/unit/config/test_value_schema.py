"""Column names from a value schema, and the allow-list of Spark settings."""

from __future__ import annotations

import re

import pytest

from penstock.config.model import Input
from penstock.config.spark_settings import is_allowed
from penstock.config.value_schema import KAFKA_COLUMNS, SchemaError, column_names, ddl_names


@pytest.mark.parametrize(
    ("value_schema", "names"),
    [
        ("a INT, B STRING", {"a", "b"}),
        ("a: INT, b: STRING", {"a", "b"}),
        ("a STRUCT<x: INT, y: ARRAY<MAP<STRING, INT>>>, b DECIMAL(10, 2)", {"a", "b"}),
        ("`we, ird` INT COMMENT 'one, two', `back``tick` INT NOT NULL", {"we, ird", "back`tick"}),
        ("  time TIMESTAMP ,\n window STRING", {"time", "window"}),
        ("select INT, from STRING, order INTERVAL DAY TO SECOND", {"select", "from", "order"}),
        ("a INT COMMENT ',>'  -- not, a column\n, b STRUCT<c: INT NOT NULL COMMENT '>', `d>`: STRUCT<>>", {"a", "b"}),
        ("STRUCT<a: INT>", None),
        ("MAP<STRING, INT>", None),
        ('{"type": "struct", "fields": []}', None),
    ],
)
def test_ddl(value_schema: str, names: set[str] | None) -> None:
    assert column_names(Input(topic="t", key_groups=1, value_schema=value_schema)) == names


@pytest.mark.parametrize(
    ("value_schema", "names"),
    [
        ('{"type": "record", "name": "r", "fields": [{"name": "A", "type": "int"}]}', {"a"}),
        ('{"type": "record", "name": "r", "fields": "none"}', None),
        ('"string"', None),
    ],
)
def test_avro(value_schema: str, names: set[str] | None) -> None:
    assert column_names(Input(topic="t", key_groups=1, format="avro", value_schema=value_schema)) == names


@pytest.mark.parametrize(
    ("value_schema", "what"),
    [
        ("", "the name of a column is missing before the end"),
        ("a INT,", "the name of a column is missing before the end"),
        ("a INT, 'b' INT", "the name of a column is missing before b"),
        ("a", "column a: a type is missing before the end"),
        ("a-b INT", "column a: a type is missing before -"),
        ("a INT, b NUMBER(3)", "column b: Spark has no type number"),
        ("a STRUCT<b: ARRAY<NUMBER>>", "column b: Spark has no type number"),
        ("a ARRAY", "column a: array needs its types in <>"),
        ("a ARRAY<INT", "column a: the < of array is not closed"),
        ("a MAP<STRING>", "column a: map needs a key type and a value type"),
        ("a INT>", "a > closes nothing"),
        ("`a INT", "a quote is not closed"),
    ],
)
def test_ddl_that_spark_cannot_read(value_schema: str, what: str) -> None:
    with pytest.raises(SchemaError, match=f"^{re.escape(what)}$"):
        ddl_names(value_schema)


def test_raw_and_absent() -> None:
    assert column_names(Input(topic="t", key_groups=1, format="raw")) == KAFKA_COLUMNS
    assert column_names(Input(topic="t", key_groups=1)) is None


@pytest.mark.parametrize(
    ("setting", "allowed"),
    [
        ("spark.sql.session.timeZone", True),
        ("spark.sql.ansi.enabled", True),
        ("spark.sql.adaptive.coalescePartitions.enabled", True),
        ("spark.sql.streaming.stateStore.rocksdb.blockSizeKB", True),
        ("spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage", False),
        ("spark.sql.streaming.stateStore.rocksdb.BoundedMemoryUsage", False),
        ("spark.sql.streaming.stateStore.rocksdb.changelogcheckpointing.enabled", False),
        ("spark.sql.streaming.stateStore.rocksdb.formatVersion", False),
        ("spark.sql.adaptive.customCostEvaluatorClass", False),
        ("spark.sql.shuffle.partitions", False),
        ("spark.sql.streaming.checkpointFileManagerClass", False),
        ("spark.sql.streaming.stateStore.providerClass", False),
        ("spark.sql.streaming.stateStore.maintenanceInterval", False),
        ("spark.sql.caseSensitive", False),
        ("spark.sql.variable.substitute", False),
        ("spark.executor.memory", False),
        ("", False),
    ],
)
def test_spark_settings(setting: str, allowed: bool) -> None:
    assert is_allowed(setting) is allowed
