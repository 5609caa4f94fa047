"""Records sent to Kafka, with Kafka's answer to each.

A record that was refused is no longer waiting either, so an empty queue does not say that all were taken.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from penstock.control.errors import Unavailable

_POLL_SECONDS = 0.1
# Kafka's client looks once a second for records whose time is over.
_GIVE_UP_SECONDS = 5.0
_ANY_PARTITION = -1


class Lost(NamedTuple):
    """Records that Kafka did not take, or whose answer was lost on the way.

    `error`: its first refusal; None where it only gave no answer in time.
    """

    records: int
    of: int
    error: KafkaError | None
    seconds: float

    def __str__(self) -> str:
        why = self.error.str() if self.error is not None else f"not confirmed within {self.seconds:g} s"
        return f"{self.records} of {self.of} records: {why}"


class CheckedProducer:
    """Sends records, and says which were not taken. Used from one thread.

    `seconds`: for how long a record is tried. After that Kafka's client gives it up, so a repetition doubles no row
    that the client would still have sent.
    """

    def __init__(self, settings: Mapping[str, Any], seconds: float, logger: logging.Logger | None = None) -> None:
        more = {} if logger is None else {"logger": logger}
        self._producer = Producer({**settings, "message.timeout.ms": int(seconds * 1000)}, **more)
        self._seconds = seconds
        self._sent = 0
        self._refused = 0
        self._error: KafkaError | None = None
        self._taken: set[tuple[str, int]] = set()

    def send(
        self,
        topic: str,
        value: str | bytes,
        *,
        key: str | bytes | None = None,
        partition: int = _ANY_PARTITION,
    ) -> None:
        """Sends a record, in the background. Waits while too many are on the way."""
        while True:
            try:
                self._producer.produce(topic, value=value, key=key, partition=partition, on_delivery=self._answered)
            except BufferError:
                self._producer.poll(_POLL_SECONDS)
            except KafkaException as error:
                self._sent += 1
                self._refuse(error.args[0])
                return
            else:
                self._sent += 1
                self._producer.poll(0)
                return

    def lost(self) -> Lost | None:
        """Waits for the answers to all records so far: those that were not taken, since the beginning; None: none."""
        waiting = self._producer.flush(self._seconds + _GIVE_UP_SECONDS)
        count = waiting + self._refused
        return Lost(count, self._sent, self._error, self._seconds) if count else None

    def require_taken(self, where: str) -> None:
        """Waits for the answers to all records so far. Raises Unavailable that says how many were not taken."""
        lost = self.lost()
        if lost is not None:
            raise Unavailable(f"{where} did not take {lost}")

    @contextmanager
    def transaction(self, where: str, shown_by: str) -> Iterator[None]:
        """What the body sends counts for readers of committed records only once all of it is taken; of a producer with
        a `transactional.id`. `shown_by`: the command that shows whether it was taken. Raises Unavailable."""
        try:
            self._producer.init_transactions(self._seconds)
            self._producer.begin_transaction()
        except KafkaException as error:
            raise Unavailable(f"{where} begins no transaction: {error.args[0].str()}. Nothing was sent") from error
        try:
            yield
            self.require_taken(where)
        except BaseException:
            with suppress(KafkaException):  # Kafka itself ends a transaction that its producer has left
                self._producer.abort_transaction(self._seconds)
            raise
        try:
            self._producer.commit_transaction(self._seconds)
        except KafkaException as error:
            told = f"{where} did not confirm the transaction: {error.args[0].str()}"
            raise Unavailable(
                f"{told}. All records were sent, or none. Look before you repeat it: {shown_by}"
            ) from error

    def partitions_taken(self, topic: str) -> set[int]:
        """The partitions of the topic that have taken a record, as far as Kafka has answered."""
        return {partition for name, partition in self._taken if name == topic}

    def _answered(self, error: KafkaError | None, sent: Message) -> None:
        if error is not None:
            self._refuse(error)
            return
        topic, partition = sent.topic(), sent.partition()
        if topic is not None and partition is not None:
            self._taken.add((topic, partition))

    def _refuse(self, error: KafkaError) -> None:
        self._refused += 1
        self._error = self._error or error
