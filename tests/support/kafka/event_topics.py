"""Kafka topics whose records have event times, for the tests of the source `penstock-kafka`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import Producer

from tests.support.spark.hosts import make_topic

T0_MILLIS = 1_700_000_000_000 // 3_600_000 * 3_600_000
"""A full hour: the first event time of the tests."""

Times = Mapping[int, Iterable[int]]
_ROWS_IN_FLIGHT = 10_000


def topic_of(bootstrap: str, times: Times, **how: Any) -> str:
    """A new topic with a partition for each entry of `times` (see `write_times`); its name."""
    topic = make_topic(bootstrap, len(times))
    write_times(bootstrap, topic, times, **how)
    return topic


def write_times(
    bootstrap: str,
    topic: str,
    times: Times,
    *,
    record_millis: int | None = None,
    rows_per_transaction: int | None = None,
    padding: int = 0,
) -> None:
    """Writes a row `{"at": seconds, "n": number}` for each event time (milliseconds after T0) of each partition.

    Record timestamps are the event times, or `record_millis` for all. With `rows_per_transaction` the rows are written
    in transactions, whose markers carry the time of the clock.
    """
    # Idempotent, for without it a request that is sent again gets out of order, or is there twice.
    settings = {"bootstrap.servers": bootstrap, "linger.ms": 20, "enable.idempotence": True}
    producer = Producer(settings | _transactional(topic, rows_per_transaction))
    if rows_per_transaction is not None:
        producer.init_transactions()
        producer.begin_transaction()
    for number, (partition, millis) in enumerate(_in_order(times)):
        if rows_per_transaction is not None and number > 0 and number % rows_per_transaction == 0:
            producer.commit_transaction()
            producer.begin_transaction()
        at = T0_MILLIS + millis
        value = json.dumps({"at": at / 1000, "n": number, "pad": "x" * padding})
        producer.produce(
            topic, value=value, partition=partition, timestamp=at if record_millis is None else record_millis
        )
        if number % _ROWS_IN_FLIGHT == 0:
            producer.flush(60)  # else the producer's queue runs full while a broker begins slowly
    if rows_per_transaction is not None:
        producer.commit_transaction()
    assert producer.flush(60) == 0


def _in_order(times: Times) -> list[tuple[int, int]]:
    """Transactions go over all partitions in the order of time; within a partition nothing is moved."""
    rows = [(place, partition, at) for partition, column in times.items() for place, at in enumerate(column)]
    longest = {partition: max(1, sum(1 for row in rows if row[1] == partition)) for partition in times}
    rows.sort(key=lambda row: row[0] / longest[row[1]])
    return [(partition, at) for _, partition, at in rows]


def _transactional(topic: str, rows_per_transaction: int | None) -> dict[str, Any]:
    return {} if rows_per_transaction is None else {"transactional.id": topic}
