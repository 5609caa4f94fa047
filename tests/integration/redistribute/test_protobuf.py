"""A job of Protobuf from end to end: keyed state by event time in several tasks, dead letters, messages out."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from confluent_kafka import Producer
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from penstock.control.errors import BrokenTask
from penstock.local.kafka import EmbeddedKafka
from penstock.spark.redistribute.positions import task_specs
from penstock.spark.task import RunningTask, Runtime
from tests.support.kafka.protobuf import TIMESTAMP, classes, field, message, text, with_imports
from tests.support.spark.hosts import make_topic
from tests.support.spark.redistribution import KEY_GROUPS, Job, job_config, output_topic, records_of

SET = with_imports(
    FileDescriptorProto(
        name="shop.proto",
        package="shop",
        syntax="proto3",
        dependency=["google/protobuf/timestamp.proto"],
        message_type=[
            message("Order", field(1, "shop", "string"), field(2, "at", TIMESTAMP), field(3, "cents", "uint32")),
            message("Hour", field(1, "shop", "string"), field(2, "begin", TIMESTAMP), field(3, "cents", "int64")),
        ],
    )
)
Order, Hour = classes(SET, "shop.Order", "shop.Hour")
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
SQL = (
    "SELECT shop, window.start AS begin, sum(cents) AS cents FROM "
    "(SELECT shop, window(at, '1 hour') AS window, cents FROM orders) GROUP BY shop, window"
)


def order(number: int) -> tuple[str, Any]:
    made = Order(shop=f"s{number % 30}", cents=number + 1)
    made.at.FromDatetime(BEGIN + timedelta(minutes=number))
    return made.shop, made.SerializeToString()


def hours(numbers: range) -> Counter[tuple[str, datetime, int]]:
    sums: Counter[tuple[str, datetime]] = Counter()
    for number in numbers:
        sums[(f"s{number % 30}", BEGIN + timedelta(hours=number // 60))] += number + 1
    return Counter((shop, begin, cents) for (shop, begin), cents in sums.items())


def start(job: Job) -> None:
    RunningTask(job.runtime, task_specs(job.name, job.layout)[0], epoch=1).start()


@pytest.mark.long
def test_messages_are_counted_by_key_and_hour_in_two_tasks_and_in_one(runtime: Runtime, kafka: EmbeddedKafka) -> None:
    """1. A sample of the keys tells a wrong key_function. 2. Two tasks. 3. Records that are no orders are dead letters
    with their reason. 4. One task. The hours that are written are those of all orders."""
    topic = make_topic(kafka.bootstrap, KEY_GROUPS)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})

    def produce(*records: tuple[str, Any]) -> None:
        for key, value in records:
            producer.produce(topic, key=key, value=value)
        assert producer.flush(30) == 0

    output = output_topic(kafka.bootstrap) | {"value_format": "protobuf", "value_schema": text(SET)}
    output["protobuf"] = {"message": "shop.Hour"}
    config = job_config({"orders": topic}, "crc32", output, query={"sql": SQL}, task_count=2)
    protobuf = {"message": "shop.Order", "emit_default_values": True}
    read_as = {"format": "protobuf", "value_schema": text(SET), "protobuf": protobuf}
    source = config.inputs["orders"].model_dump() | read_as | {"key_columns": ("shop",)}
    inputs = {"orders": type(config.inputs["orders"]).model_validate(source)}
    job = Job(runtime, config.model_copy(update={"inputs": inputs}))
    produce(*map(order, range(300)))
    wrong = {"orders": inputs["orders"].model_copy(update={"key_function": "kafka"})}
    with pytest.raises(BrokenTask, match=r"inputs\.orders\.key_function is kafka, but .* set key_function to crc32"):
        start(Job(runtime, job.config.model_copy(update={"inputs": wrong})))
    job.run()
    produce(("s1", b"no order"), ("s2", Hour(shop="s2", cents=2**40).SerializeToString()), ("s3", None))
    job.run()
    letters = records_of(kafka.bootstrap, f"{job.name}.dead-letters")
    reasons = {letter.value(): dict(letter.headers())["penstock.reason"].decode() for letter in letters}
    assert reasons[b"no order"].startswith("the value is no message of shop.Order")
    assert "the field cents has 1099511627776, which is not 32 bits without a sign" in reasons.values()
    assert len(letters) == 2
    job.rescale(task_count=1)
    produce(*map(order, range(300, 600)))
    produce(*map(order, range(99_990, 100_020)))
    job.run()
    found = [Hour.FromString(record.value()) for record in records_of(kafka.bootstrap, job.config.output.topic)]
    told = Counter((hour.shop, hour.begin.ToDatetime(UTC), hour.cents) for hour in found)
    assert told == hours(range(600))
