"""What Kafka says of topics: how many partitions they have, and what this process may do. Nothing is created."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Collection
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient  # type: ignore[attr-defined]

from penstock.config.topics import topic_and_cluster
from penstock.control.errors import Unavailable
from penstock.kafka.access import Brokers, Clusters
from penstock.kafka.refusals import Admin

ANSWER_SECONDS = 15.0
"""How long Kafka may take for an answer, unless less is asked for."""
_64_BITS = (1 << 64) - 1
DENIED = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})
"""The codes of errors with which Kafka says that an account lacks a right."""


class Topic(NamedTuple):
    """`partitions`: None for a topic that does not exist, or that this process may not even describe.

    `has_marks`: whether tasks record beside it how far in event time they have come; only of topics of a pattern.
    `id`: Kafka's id of the topic. A topic made again under the same name has another. None: the broker has no ids.
    `instead`: of a missing topic of an input, which ones there are, for people; empty where nobody has looked.
    """

    partitions: int | None
    may_read: bool = True
    may_write: bool = True
    id: str | None = None
    instead: str = ""
    has_marks: bool = False

    @property
    def is_missing(self) -> bool:
        """Whether Kafka said that there is no such topic."""
        return self.partitions is None and self.may_read


def described(bootstrap: Brokers, topics: Collection[str], *, within_seconds: float | None = None) -> dict[str, Topic]:
    """Each of the topics. Raises Unavailable when Kafka does not answer, or refuses the login, which says nothing
    about the topics.

    `within_seconds`: how long it may take, `ANSWER_SECONDS` when absent."""
    if not topics:
        return {}
    timeout = ANSWER_SECONDS if within_seconds is None else within_seconds
    asking = _asking(bootstrap)
    try:
        asked: dict[str, Future[Any]] = asking.client.describe_topics(
            TopicCollection(sorted(topics)), request_timeout=timeout, include_authorized_operations=True
        )
        asking.wait(asked.values())
        return {topic: _topic(answer) for topic, answer in asked.items()}
    except KafkaException as error:
        raise asking.failed(f"kafka did not describe the topics {', '.join(sorted(topics))}", error) from error


def listed(bootstrap: Brokers, *, within_seconds: float | None = None) -> frozenset[str]:
    """The names of all topics that this process may describe. Raises Unavailable as `described` does."""
    asking = _asking(bootstrap)
    try:
        asking.try_login()
        return frozenset(asking.client.list_topics(timeout=within_seconds or ANSWER_SECONDS).topics)
    except KafkaException as error:
        raise asking.failed("kafka did not list its topics", error) from error


def described_on(
    clusters: Clusters, names: Collection[str], *, within_seconds: float | None = None
) -> dict[str, Topic]:
    """Each of the topics, which may be on several clusters, by its full name; the clusters are asked at once. Raises as
    `described` does, where one of them does."""
    by_cluster: defaultdict[str | None, dict[str, str]] = defaultdict(dict)
    for name in names:
        topic, cluster = topic_and_cluster(name)
        by_cluster[cluster][topic] = name
    if not by_cluster:
        return {}

    def ask(cluster: str | None) -> dict[str, Topic]:
        full = by_cluster[cluster]
        found = described(clusters(cluster), full, within_seconds=within_seconds)
        return {full[topic]: facts for topic, facts in found.items()}

    with ThreadPoolExecutor(len(by_cluster)) as pool:
        return {name: facts for found in pool.map(ask, by_cluster) for name, facts in found.items()}


def _topic(answer: Future[Any]) -> Topic:
    try:
        found = answer.result()
    except KafkaException as error:
        code = error.args[0].code()
        if code == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return Topic(None)
        if code in DENIED:
            return Topic(None, may_read=False, may_write=False)
        raise
    rights, topic = found.authorized_operations, Topic(len(found.partitions), id=id_text(found.topic_id))
    if not rights:  # The broker does not say.
        return topic
    return topic._replace(may_read=AclOperation.READ in rights, may_write=AclOperation.WRITE in rights)


def id_text(uuid: Any) -> str | None:
    """The id of a topic (`confluent_kafka.Uuid`) in hexadecimal digits; None for zero, which stands for no id.

    Its own text may have a slash, which is no part of a file's name.
    """
    most, least = uuid.get_most_significant_bits(), uuid.get_least_significant_bits()
    return f"{most & _64_BITS:016x}{least & _64_BITS:016x}" if most or least else None


_opening = threading.Lock()


def admin(bootstrap: Brokers) -> AdminClient:
    """One client a process: opening one costs more than the question. Safe in several threads: a second client would be
    closed, and its question with it."""
    return _asking(bootstrap).client


def _asking(bootstrap: Brokers) -> Admin:
    with _opening:
        return _open(bootstrap)


@cache
def _open(bootstrap: Brokers) -> Admin:
    """Raises Unavailable when no client can be made, as with a file that is no certificate."""
    # It would log each failed attempt to connect while Kafka is away.
    quiet = {"log_level": 2}
    try:
        return Admin.open(bootstrap, {"socket.timeout.ms": int(ANSWER_SECONDS * 1000), **quiet})
    except KafkaException as error:
        raise Unavailable(f"no client of kafka could be made: {error}") from error
