"""The rows of `kafka_rows` in each format that an input may have, and Spark's own functions for them."""

from __future__ import annotations

import struct
from datetime import UTC, datetime

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from penstock.local.jars import fetch_store_jars, share_dir
from tests.support.bench.kafka_rows import SCHEMA
from tests.support.kafka import protobuf
from tests.support.kafka.avro import framed, number, record, text
from tests.support.kafka.protobuf import TIMESTAMP, field

AVRO_SCHEMA = record(
    ("id", "long"),
    ("dest", "string"),
    ("carrier", "string"),
    ("at", {"type": "long", "logicalType": "timestamp-micros"}),
    ("delay", "double"),
)
_EVENT = protobuf.message(
    "Event",
    field(1, "id", "int64"),
    field(2, "dest", "string"),
    field(3, "carrier", "string"),
    field(4, "at", TIMESTAMP),
    field(5, "delay", "double"),
)
_SET = protobuf.with_imports(
    FileDescriptorProto(
        name="event.proto", package="bench", dependency=["google/protobuf/timestamp.proto"], message_type=[_EVENT]
    )
)
PROTOBUF = {"value_schema": protobuf.text(_SET), "protobuf": {"message": "bench.Event"}}
(_Event,) = protobuf.classes(_SET, "bench.Event")
_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
FRAME_BYTES = 5
_AT = number(int(_BEGIN.timestamp()) * 1_000_000)
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


def protobuf_value(row: int) -> bytes:
    """A row as a message of Protobuf."""
    made = _Event(id=row, dest="JFK", carrier=f"C{row % 20}", delay=1.5)
    made.at.FromDatetime(_BEGIN)
    return bytes(made.SerializeToString())


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
