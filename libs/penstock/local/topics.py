"""Topics on a Kafka cluster, made on purpose: their partitions are the key groups of the jobs that read them."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewTopic

from penstock.control.errors import Conflict, NotFound, Unavailable
from penstock.control.texts import likely
from penstock.kafka.access import Brokers, kafka_at
from penstock.kafka.refusals import Admin

_TIMEOUT_S = 10.0
_CONNECT_S = 2.0
_BEGIN: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_END: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
# What the client has to say of a broker that is away comes back as an error too.
silent = logging.getLogger(__name__)
silent.addHandler(logging.NullHandler())
silent.propagate = False


class TopicFacts(NamedTuple):
    """A topic. `offsets`: from the first one that is kept to the end; markers of transactions have offsets too."""

    name: str
    partitions: int
    offsets: int


def create_topics(bootstrap: Brokers, partitions: Mapping[str, int]) -> None:
    """Creates each topic with its number of partitions. Raises Conflict when one exists, Unavailable on other failures.

    All are tried before anything is raised.
    """
    admin = _admin(bootstrap)
    topics = [NewTopic(name, count, 1) for name, count in partitions.items()]
    made = admin.client.create_topics(topics, request_timeout=_TIMEOUT_S)
    admin.wait(made.values())
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


def delete_topic(bootstrap: Brokers, name: str) -> None:
    """Deletes a topic with all its records. Raises NotFound, Unavailable."""
    admin = _admin(bootstrap)
    deleted = admin.client.delete_topics([name], request_timeout=_TIMEOUT_S)
    admin.wait(deleted.values())
    try:
        deleted[name].result(_TIMEOUT_S + 5)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise _unknown(bootstrap, name, _partition_counts(bootstrap)) from error
        raise Unavailable(f"kafka at {bootstrap} did not delete {name}: {error.args[0].str()}") from error


def list_topics(bootstrap: Brokers) -> list[TopicFacts]:
    """All topics but Kafka's own, by name. Raises Unavailable."""
    counts = {name: count for name, count in _partition_counts(bootstrap).items() if not name.startswith("__")}
    places = [(name, number) for name, count in counts.items() for number in range(count)]
    begins, ends = (_offsets(bootstrap, places, where) for where in (_BEGIN, _END))
    totals = dict.fromkeys(counts, 0)
    for name, number in places:
        totals[name] += ends[name, number] - begins[name, number]
    return [TopicFacts(name, counts[name], totals[name]) for name in sorted(counts)]


def partition_count(bootstrap: Brokers, topic: str) -> int:
    """The number of partitions of a topic. Raises NotFound, Unavailable."""
    found = _partition_counts(bootstrap)
    count = found.get(topic)
    if count is None:
        raise _unknown(bootstrap, topic, found)
    return count


def topic_count(bootstrap: Brokers) -> int:
    """The number of topics, Kafka's own too. Raises Unavailable."""
    return len(_partition_counts(bootstrap))


def end_offsets(bootstrap: Brokers, topic: str) -> list[TopicPartition]:
    """The end of each partition for readers of committed records. Raises NotFound, Unavailable."""
    ends = offsets(bootstrap, topic, ends=True)
    return [TopicPartition(topic, number, end) for number, end in ends.items()]


def offsets(bootstrap: Brokers, topic: str, *, ends: bool) -> dict[int, int]:
    """By partition, its first offset, or its end for readers of committed records. Raises NotFound, Unavailable."""
    places = [(topic, number) for number in range(partition_count(bootstrap, topic))]
    found = _offsets(bootstrap, places, _END if ends else _BEGIN)
    return {number: found[topic, number] for _, number in places}


def _partition_counts(bootstrap: Brokers) -> dict[str, int]:
    admin = _admin(bootstrap)
    try:
        found = admin.client.list_topics(timeout=_TIMEOUT_S).topics
    except KafkaException as error:
        admin.require_login()
        raise no_answer(bootstrap, error) from error
    return {name: len(topic.partitions) for name, topic in found.items() if topic.error is None}


def _offsets(bootstrap: Brokers, places: list[tuple[str, int]], where: OffsetSpec) -> dict[tuple[str, int], int]:
    if not places:
        return {}
    asked = {TopicPartition(name, number): where for name, number in places}
    admin = _admin(bootstrap)
    options = {"isolation_level": IsolationLevel.READ_COMMITTED, "request_timeout": _TIMEOUT_S}
    try:
        found = admin.client.list_offsets(asked, **options)
        admin.wait(found.values())
        return {(place.topic, place.partition): answer.result(_TIMEOUT_S + 5).offset for place, answer in found.items()}
    except KafkaException as error:
        raise no_answer(bootstrap, error) from error


def require_listening(bootstrap: Brokers) -> None:
    """Raises Unavailable when nothing listens at any of the addresses. Kafka's client would try for 10 s and longer."""
    why = "no address"
    for address in kafka_at(bootstrap).bootstrap.split(","):
        host, _, port = address.strip().rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()
        except ValueError:
            setting = kafka_at(bootstrap).setting("bootstrap")
            why = f"{address.strip()} is no address: in {setting} write host:port"
        except OSError as error:
            why = str(error)
        else:
            return
    raise _unreachable(bootstrap, why)


def no_answer(bootstrap: Brokers, error: KafkaException) -> Unavailable:
    """Kafka does not do what it was asked."""
    return _unreachable(bootstrap, error.args[0].str())


def _unreachable(bootstrap: Brokers, why: str) -> Unavailable:
    kafka = kafka_at(bootstrap)
    if kafka.cluster is not None:
        return Unavailable(f"kafka at {kafka} does not answer ({why}): is {kafka.setting('bootstrap')} right?")
    return Unavailable(
        f"kafka at {kafka} does not answer ({why}): is `penstock up` running? PENSTOCK_DATA_DIR "
        "names the folder of another stack, PENSTOCK_KAFKA_BOOTSTRAP another Kafka"
    )


def _unknown(bootstrap: Brokers, topic: str, known: Iterable[str]) -> NotFound:
    cluster = kafka_at(bootstrap).cluster
    command = "penstock topics list" if cluster is None else f"penstock topics list --cluster {cluster}"
    names = [name for name in known if not name.startswith("__")]
    detail = f"there is no topic {topic} at {bootstrap}; {likely(topic, names)}. `{command}` shows all"
    return NotFound(detail, field="name", rule="known")


def _admin(bootstrap: Brokers) -> Admin:
    """To be kept until its answers have come: they end with it. Raises Unavailable when nothing listens, or the login
    is refused."""
    require_listening(bootstrap)
    admin = Admin.open(bootstrap, {}, logger=silent)
    admin.try_login()
    return admin
