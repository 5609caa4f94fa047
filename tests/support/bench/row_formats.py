"""The rows of `kafka_rows` in each format that an input may have, and Spark's own functions for them."""

from __future__ import annotations

import struct
from datetime import UTC, datetime

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from penstock.local.jars import fetch_store_jars, share_dir
from tests.support.bench.kafka_rows import SCHEMA
from tests.support.kafka.avro import framed, number, record, text

AVRO_SCHEMA = record(
    ("id", "long"),
    ("dest", "string"),
    ("carrier", "string"),
    ("at", {"type": "long", "logicalType": "timestamp-micros"}),
    ("delay", "double"),
)
FRAME_BYTES = 5
_AT = number(int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000)
_DELAY = struct.pack("<d", 1.5)


def csv_value(row: int) -> str:
    """A row as a line of CSV."""
    return f"{row},JFK,C{row % 20},2026-01-01T00:00:00Z,1.5"


def avro_value(row: int) -> bytes:
    """A row as bare Avro."""
    return number(row) + text("JFK") + text(f"C{row % 20}") + _AT + _DELAY


def framed_value(row: int, schema: int) -> bytes:
    """A row as Avro in the frame of a registry, which knows its schema by this id."""
    return framed(schema, avro_value(row))


def add_spark_avro(session: SparkSession) -> None:
    """Spark's own functions of Avro, which pyspark comes without. Their jar is fetched once."""
    fetch_store_jars(["avro"])
    for jar in (share_dir() / "jars" / "avro").glob("*.jar"):
        session.sql(f"ADD JAR '{jar}'")


def read_by_spark() -> dict[str, Column]:
    """By format: what bare Spark makes of the value, without a check."""
    line = F.col("value").cast("string")
    return {
        "json": F.from_json(line, SCHEMA),
        "csv": F.from_csv(line, SCHEMA),
        "avro": from_avro("value", AVRO_SCHEMA),
        "avro_registry": from_avro(F.expr(f"substring(value, {FRAME_BYTES + 1})"), AVRO_SCHEMA),
    }
