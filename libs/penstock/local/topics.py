"""Topics on a Kafka cluster, made on purpose: their partitions are the key groups of the jobs that read them."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from penstock.control.errors import Conflict, Unavailable

_TIMEOUT_S = 30.0


def create_topics(bootstrap: str, partitions: Mapping[str, int], *, replication: int = 1) -> None:
    """Creates each topic with its number of partitions. Raises Conflict when one exists, Unavailable on other failures.

    All are tried before anything is raised.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap})
    made = admin.create_topics([NewTopic(name, count, replication) for name, count in partitions.items()])
    failures: dict[str, KafkaError] = {}
    for name, future in made.items():
        try:
            future.result(_TIMEOUT_S)
        except KafkaException as error:
            failures[name] = error.args[0]
    for name, failure in failures.items():
        if failure.code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise Unavailable(f"kafka at {bootstrap} did not create the topic {name}: {failure.str()}")
    if failures:
        raise Conflict(f"topics that exist already: {', '.join(sorted(failures))}", field="name", rule="unique")
