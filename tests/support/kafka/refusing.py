"""A producer of Kafka without a broker, whose records are refused."""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaError


class RefusingProducer:
    """A record that a broker refuses is told to the callback; `flush` has nothing left to send.

    `full`: how often in between there is no room for a record.
    """

    code: int = KafkaError._MSG_TIMED_OUT
    full = 0

    def __init__(self, _: object, **__: object) -> None:
        self.polls = 0

    def produce(self, *_: object, on_delivery: Any, **__: object) -> None:
        if self.polls < self.full:
            raise BufferError
        on_delivery(KafkaError(self.code), None)

    def poll(self, _: float) -> None:
        self.polls += 1

    def flush(self, _: float) -> int:
        return 0
