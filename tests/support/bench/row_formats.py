"""The rows of `kafka_rows` in each format that an input may have, and Spark's own functions for them."""

from __future__ import annotations

import shutil
import struct
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.classic.column import Column as JvmColumn

from penstock.local.jars import compile_java, fetch_store_jars, share_dir, spark_jars
from penstock.spark.columns import java_of
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
PROTOBUF: dict[str, Any] = {"value_schema": protobuf.text(_SET), "protobuf": {"message": "bench.Event"}}
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


class BareProtobuf:
    """Protobuf's own library in the place of Spark's functions, which are in a jar that cannot be had."""

    def __init__(self, session: SparkSession, folder: Path) -> None:
        classes = folder / "bare-protobuf"
        classes.mkdir()
        compile_java(sorted((Path(__file__).parent / "java").rglob("*.java")), spark_jars(), classes)
        jar = Path(shutil.make_archive(str(classes), "zip", classes)).rename(classes.with_suffix(".jar"))
        session.sql(f"ADD JAR '{jar}'")
        jvm: Any = session._jvm
        loaded = session._jsparkSession.sharedState().jarClassLoader().loadClass("io.penstock.bench.BareProtobuf")
        given = session.sparkContext._gateway.new_array(jvm.java.lang.Object, 3)  # type: ignore[union-attr]
        given[0], given[1] = PROTOBUF["value_schema"], PROTOBUF["protobuf"]["message"]
        given[2] = jvm.org.apache.spark.sql.types.DataType.fromDDL(SCHEMA)
        self._java = loaded.getConstructors()[0].newInstance(given)

    def decoded(self, value: Column) -> Column:
        """The rows of messages."""
        return JvmColumn(self._java.decoded(java_of(value)))

    def encoded(self, rows: Column) -> Column:
        """The messages of rows."""
        return JvmColumn(self._java.encoded(java_of(rows)))


def read_by_spark(bare: BareProtobuf) -> dict[str, Column]:
    """By format: what bare Spark makes of the value, without a check."""
    line = F.col("value").cast("string")
    return {
        "json": F.from_json(line, SCHEMA),
        "csv": F.from_csv(line, SCHEMA),
        "avro": from_avro("value", AVRO_SCHEMA),
        "avro_registry": from_avro(F.expr(f"substring(value, {FRAME_BYTES + 1})"), AVRO_SCHEMA),
        "protobuf": bare.decoded(F.col("value")),
    }
