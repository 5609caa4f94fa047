"""The rows that the marks of a topic's producers speak of."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import closing
from time import monotonic
from typing import Any
from uuid import uuid4

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from penstock.control.errors import Unavailable

_MOST_AT_ONCE = 10_000


def rows_spoken_of(settings: Mapping[str, Any], topic: str, end: int, within_seconds: float) -> dict[int, int]:
    """By key group: the greatest end of rows in the marks of `topic` that are committed and lie before the offset
    `end`. `settings`: those of a client of the cluster. Raises Unavailable."""
    own = {"group.id": f"penstock-marks-{uuid4()}", "enable.auto.commit": False, "enable.partition.eof": True}
    wanted = {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    with closing(Consumer({**settings, **own, **wanted})) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        try:
            return furthest_ends(_marks(consumer, topic, end, monotonic() + within_seconds))
        except KafkaException as error:
            raise Unavailable(f"kafka did not give the marks in {topic}: {error.args[0].str()}") from error


def furthest_ends(marks: Iterable[bytes]) -> dict[int, int]:
    """The greatest end of each key group (`jvm/.../kafka/marks/Mark.java`). Pure."""
    found: dict[int, int] = {}
    for mark in marks:
        for key_group, end in json.loads(mark)["at"].items():
            found[int(key_group)] = max(end, found.get(int(key_group), 0))
    return found


def _marks(consumer: Consumer, topic: str, end: int, deadline: float) -> Iterable[bytes]:
    while True:
        left = deadline - monotonic()
        if left <= 0:
            raise Unavailable(f"the marks in {topic} could not be read in time")
        for message in consumer.consume(_MOST_AT_ONCE, min(left, 0.1)):
            error = message.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                return
            if error is not None:
                raise KafkaException(error)
            if (message.offset() or 0) >= end:
                return
            yield message.value() or b"{}"
