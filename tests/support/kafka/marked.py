"""A producer that writes marks as a task does, by a client of the test: so that its transactions stay open at will."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from confluent_kafka import Message, Producer

from tests.support.spark.session import unique


class MarkedProducer:
    """One of two tasks of a job that writes to `topic`, whose marks are in `<topic>.penstock-marks`."""

    def __init__(self, bootstrap: str, topic: str, index: int) -> None:
        self._topic, self._index, self._ends = topic, index, dict[int, int]()
        self._producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": unique("writer")})
        self._producer.init_transactions(30)

    def begin(self, records: Iterable[dict[str, Any]]) -> MarkedProducer:
        """Writes records, each with its `partition`, in a transaction that stays open."""
        self._producer.begin_transaction()
        self._ends = {}
        for record in records:
            self._producer.produce(self._topic, on_delivery=self._note, **record)
        assert self._producer.flush(30) == 0
        return self

    def say(self, millis: int) -> MarkedProducer:
        """Writes the mark of the transaction: the producer has come to `millis` after 1970."""
        mark = {"g": "writer", "gen": 1, "i": self._index, "n": 2, "t": millis, "at": self._ends}
        self._producer.produce(f"{self._topic}.penstock-marks", value=json.dumps(mark), partition=0)
        assert self._producer.flush(30) == 0
        return self

    def commit(self) -> None:
        """Ends the transaction."""
        self._producer.commit_transaction(30)

    def _note(self, error: object, record: Message) -> None:
        assert error is None
        offset, partition = record.offset(), record.partition()
        assert offset is not None
        assert partition is not None
        self._ends[partition] = offset + 1
