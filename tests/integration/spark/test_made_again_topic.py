"""An input topic that is deleted and made again while a task is stopped."""

from __future__ import annotations

from pathlib import Path

from penstock.control.process import wait_until
from penstock.local.kafka import EmbeddedKafka
from penstock.local.topics import delete_topic
from penstock.spark.sinks.kafka import ensure_topic
from penstock.spark.topics import described
from tests.support.spark.hosts import Supervisor, job_config, make_topic, produce, task_spec


def test_it_is_not_read_from_the_offsets_of_the_old_one(
    shared_host: Supervisor, shared_folder: Path, kafka: EmbeddedKafka
) -> None:
    """1. The task has read 4 records, and stops. 2. The topic is made again, with 6: the task would skip the first."""
    topic = make_topic(kafka.bootstrap, 2)
    produce(kafka.bootstrap, topic, ({"n": n, "word": "w"} for n in range(4)), 2)
    spec = task_spec("again", job_config(topic, 2, {"type": "files", "path": str(shared_folder / "again")}))
    assert shared_host.start(spec).ok
    shared_host.wait_for_records(spec.task_id, 4)
    shared_host.stop(spec.task_id, finish_pending=True)
    delete_topic(kafka.bootstrap, topic)
    wait_until(lambda: described(kafka.bootstrap, [topic])[topic].is_missing, 30, "the topic to be gone")
    ensure_topic(kafka.bootstrap, topic, 2)
    produce(kafka.bootstrap, topic, ({"n": n, "word": "w"} for n in range(6)), 2)
    reply = shared_host.start(spec, 2)
    assert reply.error_kind == "broken_task"
    assert f"the topic {topic} was deleted and made again" in str(reply.error)
