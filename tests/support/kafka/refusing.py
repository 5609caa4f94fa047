"""A producer of Kafka without a broker, whose records are refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError


class RefusingProducer:
    """A record that a broker refuses is told to the callback; `flush` has nothing left to send.

    `full`: how often in between there is no room for a record. `settings`, `waited`: of the last producer, and for how
    long its last `flush` would have waited.
    """

    code: int = KafkaError._MSG_TIMED_OUT
    full = 0
    settings: Mapping[str, Any] = {}
    waited = 0.0

    def __init__(self, settings: Mapping[str, Any], **__: object) -> None:
        RefusingProducer.settings = settings
        self.polls = 0

    def produce(self, *_: object, on_delivery: Any, **__: object) -> None:
        if self.polls < self.full:
            raise BufferError
        on_delivery(KafkaError(self.code), None)

    def poll(self, _: float) -> None:
        self.polls += 1

    def flush(self, seconds: float) -> int:
        RefusingProducer.waited = seconds
        return 0
