"""The reading of value schemas against Spark's own parser: what Spark takes is never refused, and the names agree."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from penstock.config.value_schema import SchemaError, ddl_names

SIMPLE = (
    "BOOLEAN", "TINYINT", "BYTE", "SMALLINT", "SHORT", "INT", "INTEGER", "BIGINT", "LONG", "FLOAT", "REAL",
    "DOUBLE", "DECIMAL", "DEC", "NUMERIC", "STRING", "BINARY", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ",
    "VOID", "VARIANT",
)  # fmt: skip
OTHER = ("decimal(10, 2)", "Numeric(5)", "char(3)", "varchar(9)", "interval day to second", "INTERVAL YEAR", "number")
names = st.sampled_from(("a", "B_1", "from", "order", "time", "struct", "`a b`", "`x``y`", "`,`", "`>`", "1a", "üb"))
ends = st.sampled_from(("", " NOT NULL", " COMMENT 'x, > y'", ' COMMENT "it\'s"', " NOT NULL COMMENT ''"))


def _columns(types: st.SearchStrategy[str], sign: str) -> st.SearchStrategy[str]:
    column = st.builds(lambda name, kind, end: f"{name}{sign}{kind}{end}", names, types, ends)
    return st.lists(column, min_size=1, max_size=4).map(", ".join)


types = st.recursive(
    st.sampled_from((*SIMPLE, *OTHER)),
    lambda inner: st.one_of(
        inner.map(lambda kind: f"array<{kind}>"),
        st.builds(lambda key, value: f"MAP<{key},{value}>", inner, inner),
        _columns(inner, ": ").map(lambda columns: f"STRUCT<{columns}>"),
        _columns(inner, " ").map(lambda columns: f"struct<{columns}>"),
    ),
    max_leaves=4,
)
schemas = _columns(types, " ")


@st.composite
def damaged(draw: Any) -> str:
    """A schema with one character removed, or one put in."""
    text = draw(schemas)
    at = draw(st.integers(0, len(text) - 1))
    return str(text[:at] + draw(st.sampled_from(("", ",", "<", ">", ":", "`", "'", "x", " "))) + text[at + 1 :])


@settings(max_examples=min(300, 4 * settings.default.max_examples), deadline=None)
@given(text=st.one_of(schemas, damaged()))
def test_what_spark_takes_is_read_alike(spark: SparkSession, text: str) -> None:
    try:
        schema = StructType.fromDDL(text)
    except PySparkException:
        return  # some of these are refused here, too; others only by Spark when the task starts
    if isinstance(schema, StructType):  # else one type, which is no schema of columns
        assert ddl_names(text) in (tuple(schema.names), None), text


@pytest.mark.parametrize(
    "text", ["a", "a INT,", "a NUMBER", "a ARRAY", "a ARRAY<INT", "a MAP<STRING>", "a INT>", "`a INT"]
)
def test_what_is_refused_spark_refuses_too(spark: SparkSession, text: str) -> None:
    with pytest.raises(SchemaError):
        ddl_names(text)
    with pytest.raises(PySparkException):
        StructType.fromDDL(text)
