"""Numbered rows in a Kafka topic, and the count of what became of them in another."""

from __future__ import annotations

import hashlib
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

_READ_TIMEOUT_SECONDS = 60.0
_ROWS_BETWEEN_POLLS = 10_000


@dataclass(frozen=True)
class Verdict:
    """What a topic holds of the rows 0..n-1 that should be in it, each once.

    `hidden` counts offsets behind an open transaction: rows there show as missing until it ends.
    """

    missing: int
    repeated: int
    different: int
    hidden: int

    @property
    def exact(self) -> bool:
        """Every row once, as it was."""
        return not any(asdict(self).values())


def value_of(number: int) -> str:
    """The value that row `number` has: other for each, the same in every run."""
    return f"{number}-{hashlib.md5(str(number).encode(), usedforsecurity=False).hexdigest()}"


def produce_rows(
    bootstrap: str, topic: str, count: int, partitions: int, value: Callable[[int], str] = value_of
) -> None:
    """Writes the rows 0..count-1; row n goes to the partition `n mod partitions`, with its number as key."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 2_000_000})
    for number in range(count):
        producer.produce(topic, key=str(number), value=value(number), partition=number % partitions)
        if number % _ROWS_BETWEEN_POLLS == 0:
            producer.poll(0)
    assert producer.flush(60) == 0


def judge(bootstrap: str, topic: str, count: int) -> Verdict:
    """Compares the committed rows of `topic`, to its end, with the rows 0..count-1."""
    seen: Counter[int] = Counter()
    different = 0
    with _reader(bootstrap) as consumer:
        for message in _committed(consumer, topic):
            number = int(message.key())
            seen[number] += 1
            different += message.value().decode() != value_of(number) or number >= count
        hidden = sum(high - position for high, position in _ends(consumer, topic))
    repeated = sum(copies - 1 for copies in seen.values())
    return Verdict(count - sum(number < count for number in seen), repeated, different, hidden)


def end_offsets(consumer: Consumer, topic: str) -> int:
    """The sum of the partitions' ends: rows of open and of aborted transactions and their markers count as well."""
    numbers = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    return sum(consumer.get_watermark_offsets(TopicPartition(topic, n), timeout=10)[1] for n in numbers)


def _reader(bootstrap: str) -> Any:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"judge-{uuid.uuid4().hex}",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
    )


def _committed(consumer: Consumer, topic: str) -> Iterator[Message]:
    """All committed rows up to the ends of the partitions: control records have offsets too, so no count would do."""
    open_partitions = set(consumer.list_topics(topic, timeout=10).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, number, 0) for number in open_partitions])
    while open_partitions:
        message = consumer.poll(_READ_TIMEOUT_SECONDS)
        assert message is not None, f"{topic}: neither rows nor the end of {open_partitions}"
        error = message.error()
        if error is None:
            yield message
        elif error.code() == KafkaError._PARTITION_EOF:
            open_partitions.discard(message.partition())
        else:
            raise AssertionError(f"{topic} cannot be read: {error}")


def _ends(consumer: Consumer, topic: str) -> list[tuple[int, int]]:
    """Of each partition: its high watermark, and where a reader of committed rows has come to."""
    places = consumer.position(consumer.assignment())
    return [(consumer.get_watermark_offsets(place, timeout=10)[1], place.offset) for place in places]
