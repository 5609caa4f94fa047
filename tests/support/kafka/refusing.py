"""A producer of Kafka without a broker, whose records are refused."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, ClassVar

from confluent_kafka import KafkaError, KafkaException


class RefusingProducer:
    """A record that a broker refuses is told to the callback; `flush` has nothing left to send.

    With no `code` they are taken. `full`: how often in between there is no room for a record. `unconfirmed`: a
    commit gets no answer. `settings`, `calls`, `waited`: of the last producer, and for how long its last `flush` would
    have waited.
    """

    code: int | None = KafkaError._MSG_TIMED_OUT
    calls: ClassVar[list[str]] = []
    full = 0
    unconfirmed = False
    settings: Mapping[str, Any] = {}
    waited = 0.0

    def __init__(self, settings: Mapping[str, Any], **__: object) -> None:
        RefusingProducer.settings, RefusingProducer.calls = settings, []
        self.polls = 0

    def produce(self, *_: object, on_delivery: Any, **__: object) -> None:
        if self.polls < self.full:
            raise BufferError
        RefusingProducer.calls.append("send")
        refusal = None if self.code is None else KafkaError(self.code)
        on_delivery(refusal, SimpleNamespace(topic=lambda: None, partition=lambda: None))

    def poll(self, _: float) -> None:
        self.polls += 1

    def flush(self, seconds: float) -> int:
        RefusingProducer.waited = seconds
        return 0

    def init_transactions(self, _: float) -> None:
        RefusingProducer.calls.append("init")

    def begin_transaction(self) -> None:
        RefusingProducer.calls.append("begin")

    def commit_transaction(self, _: float) -> None:
        RefusingProducer.calls.append("commit")
        if self.unconfirmed:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    def abort_transaction(self, _: float) -> None:
        RefusingProducer.calls.append("abort")
