"""A job that begins at a moment: by Kafka's times of the records, looked up once."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import pytest
from confluent_kafka import Producer

from penstock.spark.task import Runtime
from tests.support.spark.redistribution import KEY_GROUPS, Events, Job, job_config, output_topic

MOMENT = "2026-11-26T08:00:00Z"
MOMENT_MS = int(datetime(2026, 11, 26, 8, tzinfo=UTC).timestamp() * 1000)
LAST = KEY_GROUPS - 1


def add(events: Events, value: int, groups: range, after_ms: int) -> None:
    """A record in each key group, at a time of Kafka."""
    producer = Producer({"bootstrap.servers": events.bootstrap})
    for group in groups:
        producer.produce(events.topic, value=f'{{"v": {value}}}', partition=group, timestamp=MOMENT_MS + after_ms)
    assert producer.flush(30) == 0


def make_job(runtime: Runtime, events: Events, task_count: int = 1) -> Job:
    query = {"sql": "SELECT v FROM events"}
    output = output_topic(events.bootstrap)
    config = job_config({"events": events.topic}, "none", output, query=query, task_count=task_count)
    source = config.inputs["events"].model_copy(update={"starting_position": MOMENT})
    return Job(runtime, config.model_copy(update={"inputs": {"events": source}}))


def values(job: Job) -> Counter[int]:
    return Counter({dict(row)["v"]: count for row, count in job.rows().items()})


@pytest.mark.long
def test_a_job_begins_at_a_moment_and_looks_it_up_once(runtime: Runtime, events: Events) -> None:
    """1. Rows before the moment and from it on, none of these in the last partition. 2. A job reads the later ones. Of
    another job one of two tasks does; a rescale looks up where the other one would have begun. 3. An older row comes to
    the last partition: both jobs have begun there already, and read it when they start again."""
    add(events, 0, range(KEY_GROUPS), -1)
    add(events, 1, range(LAST), 0)
    job, half = make_job(runtime, events), make_job(runtime, events, task_count=2)
    job.run()
    assert values(job) == {1: LAST}
    half.run([0])
    half.rescale(task_count=1)
    add(events, 2, range(LAST, KEY_GROUPS), -1)
    for each in (job, half):
        each.run()
        assert values(each) == {1: LAST, 2: 1}
