"""Avro with the frame of a schema registry: what is read, what is malformed, what is neither, and what is written.

The bytes are written and read by the tests themselves (`tests.support.kafka.avro`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.config.model import Input, JobConfig, KafkaOutput
from penstock.control.errors import BrokenTask, Unavailable
from penstock.kafka.access import Kafka
from penstock.kafka.registry import Registry
from penstock.spark.failures import failure_of
from penstock.spark.inputs.avro import avro_decoder
from penstock.spark.inputs.malformed import DECODED, kind_of, reason_of
from penstock.spark.inputs.subjects import schemas_as_the_registry_has_them
from penstock.spark.settings import SparkSettings
from penstock.spark.sinks.kafka import records, value_of
from tests.support.config.jobs import job
from tests.support.kafka.avro import framed, number, record, text
from tests.support.kafka.registry import PASSWORD, USERNAME, SmallRegistry, small_registry

ID, WORD = ("id", "long"), ("word", "string")
FIRST = record(ID, WORD)
SECOND = record(("extra", "string"), ID, WORD)
READER = record(ID, WORD, ("extra", "string"), extra="none")
SUBJECT = "events-value"


@pytest.fixture
def registry() -> Iterator[SmallRegistry]:
    with small_registry() as found:
        yield found


def source(**more: Any) -> Input:
    fields = {"topic": "events", "key_groups": 1, "format": "avro", "value_schema": READER, "schema_registry": True}
    return Input.model_validate({**fields, **more})


def brokers(registry: Registry) -> Kafka:
    return Kafka("127.0.0.1:1", registry=registry)


def told(spark: SparkSession, values: list[bytes], avro: Any) -> dict[bytes, Any]:
    """By value: the row, or why the record is malformed."""
    frame = spark.createDataFrame([(bytearray(value),) for value in values], "value binary")
    found = frame.withColumn(DECODED, avro.decoded()).withColumn("kind", kind_of(spark, source()))
    rows = found.withColumn("why", reason_of(spark, source(), avro)).collect()
    return {bytes(row.value): row.why if row.kind else tuple(row[DECODED]) for row in rows}


def test_each_record_is_read_by_the_schema_of_its_writer(spark: SparkSession, registry: SmallRegistry) -> None:
    """1. Two writers' schemas and one reader's. 2. What has no frame, names no schema of Avro or ends too soon is
    malformed, with its reason. 3. Each id is asked for once in a batch; an unknown one again in the next."""
    registry.add(SUBJECT, FIRST), registry.add(SUBJECT, SECOND), registry.add("other", "message A {}", "PROTOBUF")
    whole = {
        framed(1, number(-7), text("é")): (-7, "é", "none"),
        framed(2, text("more"), number(1 << 40), text("")): (1 << 40, "", "more"),
    }
    malformed = {
        b"\x01" + framed(1, number(1), text("a"))[1:]: "begins with the byte 1, not with 0",
        b"\0\0\0": "the value has 3 bytes: too few",
        framed(99, number(1)): "the schema registry has no schema 99",
        framed(3, number(1)): "the schema 3 of the registry is of PROTOBUF",
        framed(1, number(1), number(50)): "a string of 50 bytes begins where 0 bytes are left",
        framed(1, number(1)): "EOFException",
        framed(1, number(1), text("a"), b"\0"): "the schema takes 8 of the 9 bytes of the value",
        framed(2, number(1 << 40), number(1), text("a")): "a string of 1099511627776 bytes",
    }
    avro = avro_decoder(spark, source(), brokers(registry.access))
    found = told(spark, [*whole, *malformed], avro)
    assert {value: found[value] for value in whole} == whole
    assert {value: why for value, why in malformed.items() if why not in str(found[value])} == {}
    assert sorted(registry.asked) == sorted(set(registry.asked))
    registry.schemas[99], registry.kinds[99] = FIRST, "AVRO"
    late = framed(99, number(1), text("late"))
    assert "no schema 99" in told(spark, [late], avro)[late]
    avro.java.nextBatch()
    assert told(spark, [late], avro)[late] == (1, "late", "none")
    assert registry.asked.count("GET /schemas/ids/1") == 1


@pytest.mark.parametrize("case", ["away", "broken", "another password", "another path"])
def test_a_registry_that_says_nothing_of_a_schema_makes_no_record_malformed(
    spark: SparkSession, registry: SmallRegistry, case: str
) -> None:
    """The task fails, is started again, and its error names the registry."""
    registry.add(SUBJECT, FIRST)
    registry.broken = case == "broken"
    access = {
        "away": Registry("http://127.0.0.1:1"),
        "another password": Registry(registry.url, USERNAME, "wrong-password"),
        "another path": Registry(f"{registry.url}/elsewhere", USERNAME, PASSWORD),
    }.get(case, registry.access)
    with pytest.raises(Exception, match="registry") as failed:
        told(spark, [framed(1, number(1), text("a"))], avro_decoder(spark, source(), brokers(access)))
    failure = failure_of(failed.value)
    assert (failure.error_kind, access.url in failure.error, PASSWORD in failure.error) == ("retryable", True, False)


def plan(spark: SparkSession, registry: Registry | None, **more: Any) -> list[tuple[str, str]]:
    config = JobConfig.model_validate(job()).model_copy(update={"inputs": {"events": source(**more)}})

    class Settings:
        kafka = Kafka("127.0.0.1:1", registry=registry)

    settings: SparkSettings = Settings()  # type: ignore[assignment]
    return [(problem.field, problem.rule) for problem in schemas_as_the_registry_has_them(spark, config, settings)]


def test_a_plan_asks_the_registry_about_an_input(spark: SparkSession, registry: SmallRegistry) -> None:
    switch, schema = "inputs.events.schema_registry", "inputs.events.value_schema"
    assert plan(spark, None) == [(switch, "schema_registry_set")]
    assert plan(spark, registry.access) == [(switch, "subject_exists")]
    registry.add(SUBJECT, SECOND)
    assert plan(spark, registry.access) == []
    assert plan(spark, registry.access, value_schema=record(ID, ("no", "int"))) == [(schema, "schema_reads_subject")]
    assert plan(spark, registry.access, schema_registry=False) == []
    with pytest.raises(Unavailable, match=f"{switch}: the schema registry .* refuses the user {USERNAME}"):
        plan(spark, Registry(registry.url, USERNAME, "wrong-password"))
    with pytest.raises(Unavailable, match=f"{switch}: the schema registry http://127.0.0.1:1 does not answer"):
        plan(spark, Registry("http://127.0.0.1:1"))


def output(**more: Any) -> KafkaOutput:
    return KafkaOutput.model_validate({"topic": "the.words", "value_format": "avro", **more})


def values(frame: DataFrame, to: KafkaOutput, registry: Registry | None) -> list[bytes]:
    value = value_of(frame, to, Kafka("127.0.0.1:1", registry=registry), registers=True)
    return [bytes(row.value) for row in records(frame, to, value).collect()]


def test_rows_become_avro_with_the_id_of_their_registered_schema(spark: SparkSession, registry: SmallRegistry) -> None:
    """1. Plain Avro asks nobody. 2. With the registry the check of a plan registers nothing, a start registers once.
    3. A column that may be null has the default null, so further columns can come; one that goes is refused."""
    registry.add("other", FIRST)
    frame = spark.createDataFrame([(5, "x"), (6, None)], "id BIGINT NOT NULL, word STRING")
    bare = [number(5) + number(1) + text("x"), number(6) + number(0)]
    assert values(frame, output(), None) == bare
    to = output(schema_registry=True)
    assert value_of(frame, to, brokers(registry.access), registers=False) is not None
    assert list(registry.subjects) == ["other"]
    assert values(frame, to, registry.access) == [framed(2, value) for value in bare]
    assert values(frame, to, registry.access)[0] == framed(2, bare[0])
    word = {"name": "word", "type": ["null", "string"], "default": None}
    assert json.loads(registry.schemas[2])["fields"] == [{"name": "id", "type": "long"}, word]
    assert values(frame.selectExpr("*", "CAST(1 AS INT) AS n"), to, registry.access)[0][:5] == framed(3)
    with pytest.raises(BrokenTask, match=r"output.schema_registry: .*the.words-value: a field is missing"):
        values(frame.select("id"), to, registry.access)
    with pytest.raises(BrokenTask, match="does not take"):
        value_of(frame.select("id"), to, brokers(registry.access), registers=False)


@pytest.mark.parametrize(
    ("columns", "more", "why"),
    [
        ("1 AS `a b`", {}, "output.value_format: the columns of the query do not fit Avro: .*a b"),
        ("1 AS a", {"schema_registry": True}, "output.schema_registry: the containers have no schema registry"),
    ],
)
def test_rows_that_cannot_become_avro_are_refused(
    spark: SparkSession, columns: str, more: dict[str, Any], why: str
) -> None:
    with pytest.raises(BrokenTask, match=why):
        values(spark.range(1).selectExpr(columns), output(**more), None)
