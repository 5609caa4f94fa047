"""The last and the first records of a topic, with transactions that ended in all ways."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from penstock.control.errors import NotFound
from penstock.local.kafka import EmbeddedKafka
from penstock.local.peek import peek
from penstock.local.topics import create_topics

PARTITIONS, TRANSACTIONS = 2, 40


@pytest.fixture
def topic(kafka: EmbeddedKafka) -> Iterator[str]:
    """Many transactions of one record, in turn in each partition, then many that were aborted, and one that is open."""
    name = f"peek-{uuid.uuid4().hex[:8]}"
    create_topics(kafka.bootstrap, {name: PARTITIONS, f"{name}-empty": 1})
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": name})
    producer.init_transactions(30)
    for number in range(2 * TRANSACTIONS):
        producer.begin_transaction()
        producer.produce(name, str(number).encode(), partition=number % PARTITIONS, timestamp=1_000 + number)
        producer.flush(30)
        if number < TRANSACTIONS:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
    producer.begin_transaction()
    producer.produce(name, b"open", partition=0)
    producer.flush(30)
    yield name
    producer.abort_transaction(30)


def values(kafka: EmbeddedKafka, topic: str, count: int, *, from_beginning: bool = False) -> list[int]:
    return [
        int(message.value() or b"") for message in peek(kafka.bootstrap, topic, count, from_beginning=from_beginning)
    ]


def test_only_committed_records_are_shown_in_order_of_time(kafka: EmbeddedKafka, topic: str) -> None:
    """However many markers and aborted records are behind them."""
    assert values(kafka, topic, 1) == [TRANSACTIONS - 1]
    assert values(kafka, topic, 5) == [*range(TRANSACTIONS - 5, TRANSACTIONS)]
    assert values(kafka, topic, 5, from_beginning=True) == [*range(5)]
    assert values(kafka, topic, 500) == values(kafka, topic, 500, from_beginning=True) == [*range(TRANSACTIONS)]


def test_a_topic_without_records_shows_none(kafka: EmbeddedKafka, topic: str) -> None:
    assert values(kafka, f"{topic}-empty", 3) == values(kafka, f"{topic}-empty", 3, from_beginning=True) == []
    with pytest.raises(NotFound, match="there is no topic"):
        values(kafka, f"{topic}-none", 3)
