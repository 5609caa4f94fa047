"""Column names from a value schema, and the allow-list of Spark settings."""

from __future__ import annotations

import pytest

from penstock.config.inputs import Input
from penstock.config.spark_settings import is_allowed
from penstock.config.value_schema import KAFKA_COLUMNS, column_names


@pytest.mark.parametrize(
    ("value_schema", "names"),
    [
        ("a INT, B STRING", {"a", "b"}),
        ("a: INT, b: STRING", {"a", "b"}),
        ("a STRUCT<x: INT, y: ARRAY<MAP<STRING, INT>>>, b DECIMAL(10, 2)", {"a", "b"}),
        ("`we, ird` INT COMMENT 'one, two', `back``tick` INT NOT NULL", {"we, ird", "back`tick"}),
        ("  time TIMESTAMP ,\n window STRING", {"time", "window"}),
        ("a INT,", {"a"}),
        ("STRUCT<a: INT>", None),
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
