"""A job that begins at a moment: by Kafka's times of the records, looked up once; or at offsets."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from penstock.control.errors import BrokenTask
from penstock.spark.analysis.analyse import analyse
from penstock.spark.initialize import initialize
from penstock.spark.redistribute.positions import task_specs
from penstock.spark.task import RunningTask, Runtime
from penstock.tasks.sinks import SinkRequest
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


def make_job(runtime: Runtime, events: Events, position: str = MOMENT, task_count: int = 1) -> Job:
    query = {"sql": "SELECT v FROM events"}
    output = output_topic(events.bootstrap)
    config = job_config({"events": events.topic}, "none", output, query=query, task_count=task_count)
    source = config.inputs["events"].model_copy(update={"starting_position": position})
    return Job(runtime, config.model_copy(update={"inputs": {"events": source}}))


def offsets(*each: int) -> str:
    """As `starting_position` has them, of the key groups from 0 on."""
    return ",".join(f"{group}:{offset}" for group, offset in enumerate(each))


def rules(job: Job) -> list[tuple[str, str]]:
    """What is wrong with the job, and in which field, as a start asks: the records have no key and no event time."""
    found = analyse(job.runtime.spark, job.runtime.settings, job.name, job.config, decodes_sample=False)
    return [(problem.rule, problem.field) for problem in found.problems]


def begin(job: Job) -> None:
    RunningTask(job.runtime, task_specs(job.name, job.layout)[0], epoch=1).start()


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


@pytest.mark.long
def test_a_job_begins_at_offsets_of_its_key_groups(runtime: Runtime, events: Events) -> None:
    """1. Three rows in each key group. A job begins with the first, the second, ... of them, the last one with none.
    2. Of another one a task of two has run when they become one, which begins in the same places. 3. A row more in
    each: restarts look at no offsets again, although Kafka has deleted those since."""
    for value in range(3):
        add(events, value, range(KEY_GROUPS), 0)
    position = offsets(0, 1, 2, 0, 0, 3)
    job, half = make_job(runtime, events, position), make_job(runtime, events, position, task_count=2)
    assert rules(job) == []
    job.run()
    assert values(job) == {0: 3, 1: 4, 2: 5}
    half.run([0])
    half.rescale(task_count=1)
    add(events, 3, range(KEY_GROUPS), 0)
    for each in (job, half):
        each.run()
        assert values(each) == {0: 3, 1: 4, 2: 5, 3: KEY_GROUPS}
    delete_before(events, 4)
    add(events, 4, range(KEY_GROUPS), 0)
    job.run()
    assert values(job) == {0: 3, 1: 4, 2: 5, 3: KEY_GROUPS, 4: KEY_GROUPS}


def delete_before(events: Events, offset: int) -> None:
    asked = [TopicPartition(events.topic, group, offset) for group in range(KEY_GROUPS)]
    admin = AdminClient({"bootstrap.servers": events.bootstrap})
    for done in admin.delete_records(asked).values():
        done.result(30)


def test_offsets_that_a_topic_does_not_have_are_refused_before_the_first_row(runtime: Runtime, events: Events) -> None:
    """1. Beyond the end: by a plan, when the output is made, and by the task. 2. Before the beginning: by a plan and by
    the task; the output may be of a job that has begun long ago."""
    field = "inputs.events.starting_position"
    add(events, 0, range(KEY_GROUPS), 0)
    beyond = make_job(runtime, events, offsets(0, 1, 2, 0, 0, 0))
    request = SinkRequest(job=beyond.name, revision=1, config=beyond.config)
    assert rules(beyond) == [("offset_there", field)]
    for refused in (lambda: initialize(runtime, request), lambda: begin(beyond)):
        with pytest.raises(BrokenTask, match=rf"{field} is 2 for the key group 2, but .* {events.topic} ends at 1$"):
            refused()
    delete_before(events, 1)
    before = make_job(runtime, events, offsets(1, 1, 1, 1, 0, 1))
    initialize(runtime, SinkRequest(job=before.name, revision=1, config=before.config))
    assert rules(before) == [("offset_kept", field)]
    with pytest.raises(BrokenTask, match=rf"{field} is 0 for the key group 4, but .* begins at 1, since Kafka deleted"):
        begin(before)


def test_a_plan_says_nothing_of_offsets_when_kafka_does_not(runtime: Runtime, events: Events) -> None:
    """Unknown is not gone."""
    job = make_job(runtime, events, offsets(*[7] * KEY_GROUPS))
    away = runtime.settings.model_copy(update={"kafka_bootstrap": "127.0.0.1:1"})
    found = analyse(runtime.spark, away, job.name, job.config)
    assert (found.problems, len(found.unchecked) > 0) == ([], True)
