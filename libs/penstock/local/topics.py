"""Topics on a Kafka cluster, made on purpose: their partitions are the key groups of the jobs that read them."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from penstock.control.errors import Conflict, Unavailable

_TIMEOUT_S = 10.0
# What the client has to say of a broker that is away comes back as an error too.
_silent = logging.getLogger(__name__)
_silent.addHandler(logging.NullHandler())
_silent.propagate = False


def create_topics(bootstrap: str, partitions: Mapping[str, int]) -> None:
    """Creates each topic with its number of partitions. Raises Conflict when one exists, Unavailable on other failures.

    All are tried before anything is raised.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap}, logger=_silent)
    topics = [NewTopic(name, count, 1) for name, count in partitions.items()]
    made = admin.create_topics(topics, request_timeout=_TIMEOUT_S)
    failures: dict[str, KafkaError] = {}
    for name, future in made.items():
        try:
            future.result(_TIMEOUT_S + 5)
        except KafkaException as error:
            failures[name] = error.args[0]
    for name, failure in failures.items():
        if failure.code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise Unavailable(f"kafka at {bootstrap} did not create {name}: {failure.str()}")
    if failures:
        raise Conflict(f"these topics exist already: {', '.join(sorted(failures))}", field="name", rule="unique")
