"""The look at the topics of running tasks, on a real broker and without Spark."""

from __future__ import annotations

from typing import Any, cast

from confluent_kafka.admin import AdminClient

from penstock.control.clock import SystemClock
from penstock.control.process import wait_until
from penstock.kafka.access import Kafka
from penstock.local.kafka import EmbeddedKafka
from penstock.local.topics import create_topics
from penstock.spark.inputs.topic_checks import topics_of
from penstock.spark.inputs.watch import InputWatch
from tests.support.spark.hosts import job_config, task_spec
from tests.support.spark.session import unique


def test_a_topic_that_is_deleted_while_a_task_reads_it_is_told(kafka: EmbeddedKafka) -> None:
    """1. It is there. 2. It is deleted. 3. It is made again, and is another topic to the task that runs. 4. A task that
    begins with the new one has no problem."""
    topic, brokers = unique("watched"), Kafka(kafka.bootstrap)
    create_topics(kafka.bootstrap, {topic: 4})
    watch = InputWatch(cast(Any, None), lambda _: brokers, SystemClock())
    task = task_spec("watched", job_config(topic, 4, {"type": "files", "path": "/out"}))

    def begun() -> dict[str, Any]:
        return {task.task_id: topics_of(task.config.inputs.values(), lambda _: brokers)}

    first = begun()

    def told() -> str:
        return watch.check([task], first)[task.task_id].get("input_unreadable", "")

    assert told() == ""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.delete_topics([topic])[topic].result(30)
    wait_until(lambda: told().startswith(f"inputs.events: there is no topic {topic}"), 20, "the topic to be gone")
    create_topics(kafka.bootstrap, {topic: 4})
    again = f"inputs.events: the topic {topic} was deleted and made again"
    wait_until(lambda: told().startswith(again), 20, "the new topic")
    assert watch.check([task], begun()) == {task.task_id: {}}
