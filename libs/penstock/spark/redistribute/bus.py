"""What Kafka says of the inputs' partitions: where they begin and where they end."""

from __future__ import annotations

from concurrent.futures import Future
from functools import cache
from time import monotonic
from typing import Any

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from penstock.config.keygroups import KeyGroupRange
from penstock.config.model import Input
from penstock.config.starting import starting_millis, starting_offsets
from penstock.config.topics import topic_and_cluster
from penstock.control.errors import Unavailable
from penstock.kafka.access import Clusters
from penstock.spark.producers import marks_of
from penstock.spark.redistribute.spoken import rows_spoken_of
from penstock.spark.sinks.kafka import is_marked

_TIMEOUT_SECONDS = 15.0
_LEAST_SECONDS = 0.05
# Kafka's answer for a moment after which a partition has no record.
_NO_RECORD = -1


class InputEnds:
    """Offsets as they are at the first question; later ones get the same answer. Topics have their full names. `until`:
    by when all answers must be there, by `monotonic`; None: each may take `_TIMEOUT_SECONDS`."""

    def __init__(self, clusters: Clusters, until: float | None = None) -> None:
        self._clusters = clusters
        self._until = until
        self._offsets = cache(self._ask)
        self._told = cache(self._read_marks)
        self._admin = cache(self._open)

    def ends(self, topic: str, key_groups: range) -> dict[int, int]:
        """By key group: the offset after the last record of a committed transaction. Raises Unavailable."""
        return self._offsets(topic, key_groups, "latest")

    def spoken_of(self, topic: str, key_groups: range, marks: str, until: int) -> dict[int, int]:
        """By key group: the offset after the last record of a committed transaction, or of the rows that the marks
        before the offset `until` speak of, whichever is later. Such rows may come after an open transaction, and cannot
        be read until it ends. Raises Unavailable."""
        ends = self.ends(topic, key_groups)
        if ends == self._offsets(topic, key_groups, "latest", IsolationLevel.READ_UNCOMMITTED):
            return ends
        told = self._told(marks, until)
        return {group: max(end, told.get(group, end)) for group, end in ends.items()}

    def marks(self, source: Input) -> dict[str, dict[int, int]]:
        """The topic of marks of the producers of an input and its end; empty when there is none. Raises Unavailable.

        To be asked before `spoken_of`: then that has all rows that these marks speak of.
        """
        topic = marks_of(source)
        if topic is None or source.topic is None or not is_marked(self._clusters(source.cluster), source.topic):
            return {}
        return {topic: self._offsets(topic, range(1), "latest")}

    def starts(self, source: Input, topic: str, part: KeyGroupRange) -> dict[int, int]:
        """Where a task without a checkpoint begins in a topic of an input. Raises Unavailable."""
        given = starting_offsets(source.starting_position)
        if given is not None:
            return {group: given[group] for group in part.members()}
        offsets = self._offsets(topic, range(source.key_groups), source.starting_position)
        later = [group for group in part.members() if offsets[group] == _NO_RECORD]
        ends = self.ends(topic, range(source.key_groups)) if later else {}
        return {group: (ends if group in later else offsets)[group] for group in part.members()}

    def beginnings(self, topic: str, key_groups: range) -> dict[int, int]:
        """The first offsets that Kafka keeps of some key groups. Raises Unavailable."""
        return self._offsets(topic, key_groups, "earliest")

    def _open(self, cluster: str | None) -> AdminClient:
        settings = self._clusters(cluster).client_settings()
        return AdminClient({**settings, "socket.timeout.ms": int(_TIMEOUT_SECONDS * 1000)})

    def _seconds_left(self) -> float:
        """Of the time for one question; not zero, which stands for no limit."""
        return _TIMEOUT_SECONDS if self._until is None else max(_LEAST_SECONDS, self._until - monotonic())

    def _read_marks(self, name: str, until: int) -> dict[int, int]:
        topic, cluster = topic_and_cluster(name)
        return rows_spoken_of(self._clusters(cluster).client_settings(), topic, until, _TIMEOUT_SECONDS)

    def _ask(
        self,
        name: str,
        key_groups: range,
        position: str,
        isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> dict[int, int]:
        topic, cluster = topic_and_cluster(name)
        admin = self._admin(cluster)
        wanted = {TopicPartition(topic, group): _spec(position) for group in key_groups}
        try:
            # librdkafka may look for leaders that it does not know yet only 3 s later.
            admin.list_topics(topic, timeout=self._seconds_left())
            answers: dict[Any, Future[Any]] = admin.list_offsets(
                wanted, isolation_level=isolation, request_timeout=self._seconds_left()
            )
            return {place.partition: answer.result().offset for place, answer in answers.items()}
        except KafkaException as error:
            raise Unavailable(f"kafka did not return the offsets of {name}: {error}") from error


def _spec(position: str) -> Any:
    """What to ask for a `starting_position` that has no offsets."""
    specs: Any = OffsetSpec
    millis = starting_millis(position)
    if millis is not None:
        return specs.for_timestamp(millis)
    return specs.latest() if position == "latest" else specs.earliest()
