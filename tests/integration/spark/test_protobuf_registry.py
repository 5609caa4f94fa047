"""Protobuf with the frame of a schema registry: what is read, what is malformed, what a plan says, what is written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from pyspark.sql import SparkSession

from penstock.config.model import Input, JobConfig, KafkaOutput
from penstock.control.errors import BrokenTask
from penstock.kafka.access import Kafka
from penstock.kafka.registry import Registry
from penstock.spark.failures import failure_of
from penstock.spark.inputs.malformed import DECODED, decoder_of, kind_of, reason_of
from penstock.spark.inputs.subjects import schemas_as_the_registry_has_them
from penstock.spark.settings import SparkSettings
from penstock.spark.sinks.kafka import records, value_of
from tests.support.config.jobs import job
from tests.support.kafka.protobuf import base64_of, classes, field, framed, message, text, with_imports
from tests.support.kafka.registry import SmallRegistry, small_registry

MONEY = FileDescriptorProto(
    name="money.proto", package="shop", syntax="proto3", message_type=[message("Money", field(1, "cents", "int64"))]
)
ORDER = FileDescriptorProto(
    name="order.proto",
    package="shop",
    syntax="proto3",
    dependency=["money.proto", "google/protobuf/timestamp.proto"],
    message_type=[
        message("Refund", field(1, "id", "int64")),
        message(
            "Order",
            field(1, "id", "int64"),
            field(2, "paid", ".shop.Money"),
            nested_type=[message("Line", field(1, "id", "int64"))],
        ),
    ],
)
SET = with_imports(MONEY, ORDER)
Order, Line = classes(SET, "shop.Order", "shop.Order.Line")
PLACE_OF_ORDER, PLACE_OF_LINE, FIRST = b"\x02\x02", b"\x04\x02\x00", b"\x00"
SUBJECT = "events-value"


@pytest.fixture
def registry() -> Iterator[SmallRegistry]:
    with small_registry() as found:
        yield found


def source(name: str = "shop.Order") -> Input:
    fields: dict[str, Any] = {"topic": "events", "key_groups": 1, "format": "protobuf", "schema_registry": True}
    return Input.model_validate({**fields, "value_schema": text(SET), "protobuf": {"message": name}})


def brokers(registry: Registry) -> Kafka:
    return Kafka("127.0.0.1:1", registry=registry)


def told(spark: SparkSession, values: list[bytes], of: Input, decoder: Any) -> dict[bytes, Any]:
    """By value: the id, or why the record is malformed."""
    frame = spark.createDataFrame([(bytearray(value),) for value in values], "value binary")
    found = frame.withColumn(DECODED, decoder.decoded()).withColumn("kind", kind_of(spark, of))
    rows = found.withColumn("why", reason_of(spark, of, decoder)).collect()
    return {bytes(row.value): row.why if row.kind else row[DECODED].id for row in rows}


@pytest.mark.parametrize("serializes", [True, False])
def test_each_record_names_its_message(spark: SparkSession, registry: SmallRegistry, serializes: bool) -> None:
    """1. The file of a writer has the message elsewhere: where the registry gives its descriptor, the message is known
    by its name, else by its place in the job's own file. 2. Another message, an unknown or another schema, and a broken
    frame are malformed. 3. An id is asked for once in a batch."""
    registry.serializes = serializes
    registry.add(SUBJECT, base64_of(ORDER), "PROTOBUF")
    moved = FileDescriptorProto()
    moved.CopyFrom(ORDER)
    del moved.message_type[0]
    registry.add(SUBJECT, base64_of(moved), "PROTOBUF"), registry.add("other", '{"type": "long"}')
    value, line = Order(id=7).SerializeToString(), Line(id=8).SerializeToString()
    decoder = decoder_of(spark, source(), brokers(registry.access))
    misfits = {
        framed(1, FIRST, value): "is a message shop.Refund, not shop.Order"
        if serializes
        else "is the message [0] of its",
        framed(1, PLACE_OF_LINE, line): "shop.Order.Line, not" if serializes else "is the message [1, 0] of its file",
        framed(1, b"\x02\x0a", value): "has no message [5]" if serializes else "is the message [5] of its file",
        framed(9, FIRST, value): "the schema registry has no schema 9",
        framed(3, FIRST, value): "the schema 3 of the registry is of AVRO",
        framed(1, b"\x02", b""): "the value ends within the indexes of its frame",
        framed(1, b"\x03\x01", b""): "the frame has -2 indexes",
        framed(1, b"", b""): "the value ends within the indexes",
        b"\x01\0\0\0\x01\0": "begins with the byte 1, not with 0",
        b"\0\0\0": "the value has 3 bytes: too few",
        framed(1, PLACE_OF_ORDER, b"\x08"): "the value is no message of shop.Order",
    }
    whole = {framed(1, PLACE_OF_ORDER, value): 7}
    if serializes:
        whole[framed(2, FIRST, value)] = 7
    found = told(spark, [*whole, *misfits], source(), decoder)
    assert {each: found[each] for each in whole} == whole
    assert {each: found[each] for each, why in misfits.items() if why not in str(found[each])} == {}
    assert sorted(registry.asked) == sorted(set(registry.asked))
    nested = source("shop.Order.Line")
    framed_line = framed(1, PLACE_OF_LINE, line)
    assert told(spark, [framed_line], nested, decoder_of(spark, nested, brokers(registry.access))) == {framed_line: 8}


def test_a_registry_that_is_away_makes_no_record_malformed(spark: SparkSession) -> None:
    """The task fails, and is started again."""
    decoder = decoder_of(spark, source(), brokers(Registry("http://127.0.0.1:1")))
    with pytest.raises(Exception, match="registry") as failed:
        told(spark, [framed(1, PLACE_OF_ORDER, Order(id=7).SerializeToString())], source(), decoder)
    assert failure_of(failed.value).error_kind == "retryable"


def plan(spark: SparkSession, registry: Registry | None, of: Input) -> list[str]:
    config = JobConfig.model_validate(job()).model_copy(update={"inputs": {"events": of}})

    class Settings:
        kafka = Kafka("127.0.0.1:1", registry=registry)

    settings: SparkSettings = Settings()  # type: ignore[assignment]
    found = schemas_as_the_registry_has_them(spark, config, settings)
    return [f"{problem.rule} {problem.detail}" for problem in found]


def test_a_plan_asks_the_registry_about_an_input(spark: SparkSession, registry: SmallRegistry) -> None:
    def newest(schema: str, kind: str = "PROTOBUF") -> list[str]:
        registry.add(SUBJECT, schema, kind)
        return plan(spark, registry.access, source())

    def changed(kind: str, name: str = "Order", label: str = "optional") -> str:
        made = message(name, field(1, "n", kind, label))
        return base64_of(FileDescriptorProto(name="w.proto", package="shop", message_type=[made]))

    assert plan(spark, None, source())[0].startswith("schema_registry_set")
    assert plan(spark, registry.access, source())[0].startswith("subject_exists")
    assert newest(base64_of(ORDER)) == newest(changed("uint32")) == []
    misfit = f"schema_reads_subject inputs.events.value_schema cannot read the newest schema of the subject {SUBJECT}: "
    assert newest(changed("sint64")) == [f"{misfit}the field 1 is sint64 n there, and int64 id here"]
    assert newest(changed("int64", label="repeated")) == [
        f"{misfit}the field 1 is repeated int64 n there, and int64 id here"
    ]
    assert newest(changed("int64", "Bill")) == [f"{misfit}its file has no message shop.Order; it has shop.Bill"]
    registry.serializes = False
    assert plan(spark, registry.access, source()) == []
    assert newest('{"type": "long"}', "AVRO") == [f"{misfit}it is of AVRO"]


def test_rows_become_messages_with_the_id_of_their_registered_file(
    spark: SparkSession, registry: SmallRegistry
) -> None:
    """1. A plan registers nothing. 2. A start registers the file after those that it imports, but for Protobuf's own,
    and once. 3. A file that lacks a message of the newest one is refused, by a plan, too."""
    fields: dict[str, Any] = {"topic": "events", "value_format": "protobuf", "schema_registry": True}
    to = KafkaOutput.model_validate({**fields, "value_schema": text(SET), "protobuf": {"message": "shop.Order"}})
    frame = spark.sql("SELECT 7L AS id, named_struct('cents', 5L) AS paid")
    value_of(frame, to, brokers(registry.access), registers=False)
    assert not registry.subjects
    for _ in range(2):
        value = value_of(frame, to, brokers(registry.access), registers=True)
        ((written, *_),) = records(frame, to, value).collect()
        assert bytes(written) == framed(2, PLACE_OF_ORDER, Order(id=7, paid={"cents": 5}).SerializeToString())
    assert {subject: len(found) for subject, found in registry.subjects.items()} == {"money.proto": 1, SUBJECT: 1}
    assert registry.schemas == {1: base64_of(MONEY), 2: base64_of(ORDER)}
    assert set(registry.kinds.values()) == {"PROTOBUF"}
    assert registry.references == {1: [], 2: [{"name": "money.proto", "subject": "money.proto", "version": 1}]}
    value_of(frame, to, brokers(registry.access), registers=False)
    fewer = FileDescriptorProto()
    fewer.CopyFrom(ORDER)
    del fewer.message_type[0]
    other = to.model_copy(update={"value_schema": text(with_imports(MONEY, fewer))})
    for registers in (True, False):
        with pytest.raises(BrokenTask, match=r"output.schema_registry: the registry does not take .* events-value"):
            value_of(frame, other, brokers(registry.access), registers=registers)


def test_a_registry_that_takes_no_protobuf_says_so(spark: SparkSession, registry: SmallRegistry) -> None:
    """Trying again would not help, so the task is not started again."""
    registry.takes = ["AVRO"]
    fields: dict[str, Any] = {"topic": "events", "value_format": "protobuf", "schema_registry": True}
    to = KafkaOutput.model_validate({**fields, "value_schema": text(SET), "protobuf": {"message": "shop.Order"}})
    why = "does not take the schema for the subject money.proto: Invalid schema: no type PROTOBUF"
    for registers in (True, False):
        with pytest.raises(BrokenTask, match=f"output.schema_registry: the registry {why}"):
            value_of(spark.sql("SELECT 7L AS id"), to, brokers(registry.access), registers=registers)
