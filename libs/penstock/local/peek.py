"""The first or the last records of a topic, without a consumer group: nothing is committed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from typing import NamedTuple
from uuid import uuid4

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from penstock.control.errors import Unavailable
from penstock.kafka.access import Brokers, kafka_at
from penstock.local.topics import no_answer, offsets, silent

_POLL_S, _AT_ONCE, _SILENCE_S = 0.1, 500, 30.0
_WIDER = 8


class Span(NamedTuple):
    """Offsets of a partition from `begin` up to, not including, `end`."""

    begin: int
    end: int


def peek(bootstrap: Brokers, topic: str, count: int, *, from_beginning: bool) -> list[Message]:
    """The last `count` committed records of a topic by their time, or the first, in order of time.

    Those of one partition stay in their order, and there are as many as the topic has, if it has fewer. Records that
    come meanwhile are left out. Raises NotFound, Unavailable.
    """
    begins, ends = offsets(bootstrap, topic, ends=False), offsets(bootstrap, topic, ends=True)
    spans = {number: Span(begins[number], ends[number]) for number in ends if begins[number] < ends[number]}
    own = {"group.id": f"penstock-cli-{uuid4()}", "enable.auto.commit": False, "enable.partition.eof": True}
    wanted = {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    with closing(Consumer({**kafka_at(bootstrap).client_settings(), **own, **wanted}, logger=silent)) as consumer:
        reader = _Reader(consumer, bootstrap, topic)
        found = reader.first(spans, count) if from_beginning else reader.last(spans, count)
    by_time = sorted(
        (message for messages in found.values() for message in messages), key=lambda message: message.timestamp()[1]
    )
    return by_time[:count] if from_beginning else by_time[-count:]


class _Reader:
    """Reads parts of partitions."""

    def __init__(self, consumer: Consumer, bootstrap: Brokers, topic: str) -> None:
        self._consumer = consumer
        self._bootstrap = bootstrap
        self._topic = topic

    def first(self, spans: Mapping[int, Span], count: int) -> dict[int, list[Message]]:
        """By partition, its first `count` records."""
        return self._read(spans, count)

    def last(self, spans: Mapping[int, Span], count: int) -> dict[int, list[Message]]:
        """By partition, its last `count` records. Markers of transactions have offsets too, and so have records that
        were compacted away: where too few records are found, more offsets are read."""
        found: dict[int, list[Message]] = {}
        wide, left = count, dict(spans)
        while left:
            asked = {number: Span(max(span.begin, span.end - wide), span.end) for number, span in left.items()}
            read = self._read(asked, None)
            found |= {number: messages[-count:] for number, messages in read.items()}
            left = {
                number: span
                for number, span in left.items()
                if asked[number].begin > span.begin and len(found[number]) < count
            }
            wide *= _WIDER
        return found

    def _read(self, spans: Mapping[int, Span], most: int | None) -> dict[int, list[Message]]:
        """By partition, its committed records in a span, `most` at most. Raises Unavailable."""
        found: dict[int, list[Message]] = {number: [] for number in spans}
        self._consumer.assign([TopicPartition(self._topic, number, span.begin) for number, span in spans.items()])
        reading, heard = set(spans), time.monotonic()
        while reading:
            messages = self._consumer.consume(_AT_ONCE, _POLL_S)
            for message in messages:
                heard = time.monotonic()
                number = self._partition(message)
                if number in reading and self._is_last(message, spans[number], found[number], most):
                    reading.discard(number)
            if time.monotonic() - heard > _SILENCE_S:
                raise Unavailable(f"no record of {self._topic} has come for {_SILENCE_S:g} s")
        return found

    def _partition(self, message: Message) -> int:
        error = message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            raise no_answer(self._bootstrap, KafkaException(error))
        return int(message.partition() or 0)

    def _is_last(self, message: Message, span: Span, found: list[Message], most: int | None) -> bool:
        """Keeps a record that is within the span; whether nothing more of its partition is needed."""
        if message.error() is not None:
            return True
        offset = int(message.offset() or 0)
        if offset < span.end:
            found.append(message)
        return offset >= span.end - 1 or len(found) == most
