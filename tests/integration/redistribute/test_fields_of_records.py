"""Columns that no record of a topic has: told by the analysis of a job, and by its running tasks. On a real broker."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from penstock.config.model import JobConfig
from penstock.control.process import wait_until
from penstock.local.kafka import EmbeddedKafka
from penstock.model.alerts import AlertKind
from penstock.spark.analysis.analyse import Analysis, analyse
from penstock.spark.host.tasks import TaskTable
from penstock.spark.inputs import key_sample
from penstock.spark.redistribute.positions import task_specs
from penstock.spark.task import Runtime
from tests.support.kafka.avro import framed, number, record, text
from tests.support.spark.hosts import make_topic
from tests.support.spark.redistribution import KEY_GROUPS, Job, job_config, output_topic

AVRO = record(("k", "string"), ("v", "long"), ("at", {"type": "long", "logicalType": "timestamp-micros"}))
WINDOWS = {
    "sql": "SELECT window(at, '1 minute').end AS until, count(*) AS c FROM events GROUP BY window(at, '1 minute')"
}
COPY = {"sql": "SELECT * FROM events"}


def json_of(number: int) -> bytes:
    return json.dumps({"k": f"k{number}", "v": number, "at": f"2026-01-01T00:{number:02}:00Z"}).encode()


def topic_of(kafka: EmbeddedKafka, values: list[bytes]) -> str:
    topic = make_topic(kafka.bootstrap, KEY_GROUPS)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for place, value in enumerate(values):
        producer.produce(topic, value=value, partition=place % KEY_GROUPS)
    assert producer.flush(30) == 0
    return topic


def config_of(kafka: EmbeddedKafka, topic: str, query: dict[str, str] = COPY, **source: Any) -> JobConfig:
    config = job_config({"events": topic}, "none", output_topic(kafka.bootstrap), query=query)
    fields = config.model_dump(mode="json")
    fields["inputs"]["events"] |= {"key_columns": [], **source}
    return JobConfig.model_validate(fields)


def found(runtime: Runtime, config: JobConfig) -> Analysis:
    analysis = analyse(runtime.spark, runtime.settings, "fields", config)
    assert analysis.unchecked == []
    return analysis


def says_nothing(analysis: Analysis) -> bool:
    return not analysis.problems and not analysis.notes


@pytest.mark.long
def test_columns_that_no_record_has_are_told(runtime: Runtime, kafka: EmbeddedKafka) -> None:
    """1. All are there. 2. One is not: a note. 3. The event time, or a key, in another case: refused, with the name
    that the records have. 4. An event time that is there and always null. 5. Records of another format, with the reason
    of the first. 6. Of too few records nothing is said."""
    topic = topic_of(kafka, [json_of(number) for number in range(40)])
    assert says_nothing(found(runtime, config_of(kafka, topic)))
    more = found(runtime, config_of(kafka, topic, value_schema="k STRING, v BIGINT, at TIMESTAMP, vat INT"))
    assert more.problems == []
    (note,) = more.notes
    assert note.startswith(
        "inputs.events.value_schema: vat (no record has this field; they have at) is null in all 40 "
    )
    upper = {"value_schema": "K STRING, v BIGINT, AT TIMESTAMP", "event_time_column": "AT", "key_columns": ["K"]}
    wrong = found(runtime, config_of(kafka, topic, {"sql": "SELECT v FROM events"}, **upper))
    assert [(each.field, each.rule) for each in wrong.problems] == [
        ("inputs.events.event_time_column", "event_time_in_records"),
        ("inputs.events.key_columns", "keys_in_records"),
    ]
    assert "AT is null in all 40 sampled records" in wrong.problems[0].detail
    assert "they have at" in wrong.problems[0].detail
    nulls = topic_of(kafka, [json.dumps({"k": "a", "v": 1, "at": None}).encode()] * 9)
    assert [each.rule for each in found(runtime, config_of(kafka, nulls)).problems] == ["event_time_in_records"]
    framed_values = [framed(7, text(f"k{n}"), number(n), number(n)) for n in range(9)]
    (unfit,) = found(
        runtime, config_of(kafka, topic_of(kafka, framed_values), format="avro", value_schema=AVRO)
    ).problems
    assert unfit.rule == "records_fit_schema"
    assert "9 of 9 sampled records" in unfit.detail
    assert "if its writer uses a registry, set schema_registry to true" in unfit.detail
    few = topic_of(kafka, [b'{"other": 1}'] * 7)
    assert says_nothing(found(runtime, config_of(kafka, few)))


@pytest.mark.long
def test_a_topic_whose_records_do_not_come_leaves_the_rest_of_the_check(
    runtime: Runtime, kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two topics the broker of one does not say in time where its newest records are. Told are its name, the event
    time that the other lacks, a number of partitions that is wrong, and a column that the query has not."""
    quick, slow, few = (topic_of(kafka, [json_of(number) for number in range(40)]) for _ in range(3))

    class Slow(Consumer):
        def get_watermark_offsets(self, partition: TopicPartition, *more: Any, **given: Any) -> Any:
            if partition.topic == slow:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            return super().get_watermark_offsets(partition, *more, **given)

    monkeypatch.setattr(key_sample, "Consumer", Slow)
    topics = {"quick": quick, "slow": slow, "few": few}
    query = {"sql": "SELECT k FROM quick UNION ALL SELECT nowhere FROM slow UNION ALL SELECT k FROM few"}
    config = job_config(topics, "none", output_topic(kafka.bootstrap), query=query)
    fields = config.model_dump(mode="json")
    fields["inputs"]["quick"] |= {"value_schema": "k STRING, v BIGINT, AT TIMESTAMP", "event_time_column": "AT"}
    fields["inputs"]["slow"]["key_function"] = "kafka"
    fields["inputs"]["few"]["key_groups"] = KEY_GROUPS - 1
    found = analyse(runtime.spark, runtime.settings, "fields", JobConfig.model_validate(fields))
    (why,) = found.report().unchecked
    assert why.startswith(f"inputs.slow: the newest records of the topic {slow} were not checked: ")
    assert {(each.field, each.rule) for each in found.problems} == {
        ("inputs.quick.event_time_column", "event_time_in_records"),
        ("inputs.few.key_groups", "key_groups_of_topic"),
        ("query.sql", "unresolved_column"),
    }


@pytest.mark.long
def test_a_running_task_says_that_no_record_has_an_event_time(runtime: Runtime, kafka: EmbeddedKafka) -> None:
    """1. The job was written all the same, or before its topic had records: its task reads nulls, and says so. 2. A
    task that reads the field as it is named says nothing, nor one whose query does not go by event time."""
    topic = topic_of(kafka, [json_of(number) for number in range(40)])
    upper = {"value_schema": "k STRING, v BIGINT, AT TIMESTAMP", "event_time_column": "AT"}
    table = TaskTable(runtime)
    wrong, right = (Job(runtime, config_of(kafka, topic, WINDOWS, **more)) for more in (upper, {}))
    copies = Job(runtime, config_of(kafka, topic, COPY, **upper))
    specs = {job.name: task_specs(job.name, job.layout)[0] for job in (wrong, right, copies)}
    for spec in specs.values():
        table.start(spec, epoch=1)
    try:

        def told(job: Job) -> dict[str, str] | None:
            progress = table.poll()[0].get(f"{job.name}/0")
            return None if progress is None or not progress.input_rows else dict(progress.input_problems)

        wait_until(lambda: None not in (told(right), told(copies)), 60, "their batches")
        wait_until(lambda: told(wrong), 60, "its report")
        problems = told(wrong) or {}
        assert problems.keys() == {AlertKind.NO_EVENT_TIME}
        assert "inputs.events: AT was null in all 40 records of 5 minutes" in problems[AlertKind.NO_EVENT_TIME]
        assert not told(right)
        assert not told(copies)
    finally:
        for spec in specs.values():
            table.stop(spec.task_id, finish_pending=False)
