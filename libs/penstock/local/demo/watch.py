"""Reads, through the Job Service, what the demo shows and waits for."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import Consumer, TopicPartition

from penstock.local.demo.feed import KEY_GROUPS
from penstock.local.demo.view import ShownJob
from penstock.wire.job_client import JobClient


def shown_job(client: JobClient, job: str) -> ShownJob:
    """One job as it is now. Raises Unavailable while the Job Service is away."""
    return ShownJob(client.get_job(job), [task for task in client.tasks(job).tasks if task.expected])


def caught_up(client: JobClient, job: str, topic: str, ends: Mapping[int, int]) -> bool:
    """Whether the tasks of a job have committed every record of the topic up to `ends`."""
    offsets: dict[int, int] = {}
    for task in client.tasks(job).tasks:
        read = (task.progress or {}).get("offsets", {}).get(topic, {})
        offsets |= {int(partition): int(offset) for partition, offset in read.items()}
    return all(offsets.get(partition, 0) >= end for partition, end in ends.items())


def topic_ends(bootstrap: str, topic: str) -> dict[int, int]:
    """The end offset of each partition of a topic of the demo."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "penstock-demo-watch"})
    try:
        return {p: consumer.get_watermark_offsets(TopicPartition(topic, p), 10)[1] for p in range(KEY_GROUPS)}
    finally:
        consumer.close()
