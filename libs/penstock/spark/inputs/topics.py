"""How many partitions topics have, without creating any."""

from __future__ import annotations

import threading
from collections.abc import Collection
from concurrent.futures import Future
from functools import cache
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from penstock.control.errors import Unavailable

_TIMEOUT_SECONDS = 15.0


def partition_counts(bootstrap: str, topics: Collection[str]) -> dict[str, int | None]:
    """The number of partitions of each topic; None for a topic that does not exist.

    Raises Unavailable when Kafka does not answer, which says nothing about the topics.
    """
    if not topics:
        return {}
    admin = _admin(bootstrap)
    try:
        asked: dict[str, Future[Any]] = admin.describe_topics(
            TopicCollection(sorted(topics)), request_timeout=_TIMEOUT_SECONDS
        )
        return {topic: _count(answer) for topic, answer in asked.items()}
    except KafkaException as error:
        raise Unavailable(f"kafka did not describe the topics {', '.join(sorted(topics))}: {error}") from error


def _count(answer: Future[Any]) -> int | None:
    try:
        return len(answer.result().partitions)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return None
        raise


_opening = threading.Lock()


def _admin(bootstrap: str) -> AdminClient:
    """One client a process: opening one costs more than the question. Safe in several threads: a second client would be
    closed, and its question with it."""
    with _opening:
        return _open(bootstrap)


@cache
def _open(bootstrap: str) -> AdminClient:
    # It would log each failed attempt to connect while Kafka is away.
    quiet = {"log_level": 2}
    return AdminClient({"bootstrap.servers": bootstrap, "socket.timeout.ms": int(_TIMEOUT_SECONDS * 1000), **quiet})
