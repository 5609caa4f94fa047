"""Records of a topic, for people: JSON lines in, JSON lines out. A job's rows go another way (`penstock.spark`)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Literal
from uuid import uuid4

import orjson
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, Producer, TopicPartition

from penstock.control.errors import Unavailable, UserError
from penstock.local.topics import end_offsets, no_answer, partition_count, silent
from penstock.spark.inputs.key_hash import HASHES

KeyFunction = Literal["kafka", "crc32"]
_ANY_PARTITION = -1
_FLUSH_S = 30.0
_POLL_S = 0.1
_AT_ONCE = 500


def produce(
    bootstrap: str, topic: str, lines: Iterable[str], key: Sequence[str] = (), function: KeyFunction = "kafka"
) -> int:
    """Sends each line, a JSON object, as a record, and returns their number. Empty lines are passed over.

    With `key` the record's key is these columns, and `function` decides its partition. Raises UserError for a line that
    is no JSON object or has no such column: the lines before it are sent. Raises NotFound, Unavailable.
    """
    partitions, sent = partition_count(bootstrap, topic), 0
    lost: list[Any] = []
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 20}, logger=silent)
    try:
        for number, line in enumerate(lines, 1):
            if line.strip():
                found = key_of(row_of(line, number), key, number)
                _send(producer, topic, line.strip(), found, partition_of(found, function, partitions), lost)
                sent += 1
    finally:
        left = producer.flush(_FLUSH_S)
    if left or lost:
        why = lost[0].str() if lost else f"not confirmed within {_FLUSH_S:g} s"
        raise Unavailable(f"kafka at {bootstrap} did not take {left + len(lost)} of {sent} records: {why}")
    return sent


def _send(producer: Producer, topic: str, value: str, key: bytes | None, partition: int, lost: list[Any]) -> None:
    def note(error: Any, _: Message) -> None:
        if error is not None:
            lost.append(error)

    while True:
        try:
            producer.produce(topic, value=value, key=key, partition=partition, on_delivery=note)
        except BufferError:
            producer.poll(_POLL_S)
        else:
            producer.poll(0)
            return


def row_of(line: str, number: int) -> Mapping[str, Any]:
    """A line as a JSON object. Raises UserError that names the line."""
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise UserError(f"line {number} is not JSON: {error}", field="rows", rule="json_lines") from error
    if not isinstance(row, dict):
        raise UserError(f"line {number} is not a JSON object: write {{...}}", field="rows", rule="json_lines")
    return row


def key_of(row: Mapping[str, Any], columns: Sequence[str], number: int) -> bytes | None:
    """The record's key: one column as its text, several as a JSON array; None without columns, or for one null."""
    missing = [name for name in columns if name not in row]
    if missing:
        detail = f"line {number} has no column {', '.join(missing)}; it has {', '.join(row) or 'none'}"
        raise UserError(detail, field="key", rule="known_column")
    values = [row[name] for name in columns]
    if len(values) > 1:
        return orjson.dumps(values)
    if not values or values[0] is None:
        return None
    return values[0].encode() if isinstance(values[0], str) else orjson.dumps(values[0])


def partition_of(key: bytes | None, function: KeyFunction, partitions: int) -> int:
    """Where the function puts a key; any partition for no key."""
    return _ANY_PARTITION if key is None else HASHES[function](key) % partitions


def consume(
    bootstrap: str, topic: str, *, from_beginning: bool, count: int | None, idle_seconds: float | None
) -> Iterator[Message]:
    """Committed records of a topic as they come, also those that come later; from now on unless `from_beginning`.

    Ends after `count` records. Raises TimeoutError when nothing comes for `idle_seconds`; NotFound, Unavailable.
    """
    begins = end_offsets(bootstrap, topic)
    if from_beginning:
        begins = [TopicPartition(topic, each.partition, OFFSET_BEGINNING) for each in begins]
    settings = {"group.id": f"penstock-cli-{uuid4()}", "enable.auto.commit": False, "isolation.level": "read_committed"}
    with closing(Consumer({"bootstrap.servers": bootstrap, **settings}, logger=silent)) as consumer:
        consumer.assign(begins)
        left = count
        while left is None or left > 0:
            for message in _next_batch(consumer, topic, left, idle_seconds):
                if message.error() is not None:
                    raise no_answer(bootstrap, KafkaException(message.error()))
                yield message
                left = None if left is None else left - 1


def _next_batch(consumer: Consumer, topic: str, left: int | None, idle_seconds: float | None) -> list[Message]:
    since = time.monotonic()
    while not (messages := consumer.consume(min(left or _AT_ONCE, _AT_ONCE), _POLL_S)):
        if idle_seconds is not None and time.monotonic() - since >= idle_seconds:
            raise TimeoutError(f"no record of {topic} has come for {idle_seconds:g} s")
    return messages


def value_line(message: Message) -> str:
    """The value of a record as a line of JSON: as it is if it is JSON, else as a text."""
    return orjson.dumps(_json(message.value())).decode()


def record_line(message: Message) -> str:
    """All of a record as a line of JSON."""
    headers = {name: _text(value) for name, value in list(message.headers() or ())}
    facts = {"partition": message.partition(), "offset": message.offset(), "timestamp": message.timestamp()[1]}
    return orjson.dumps(
        {**facts, "key": _text(message.key()), "headers": headers, "value": _json(message.value())}
    ).decode()


def _json(value: str | bytes | None) -> Any:
    try:
        return None if value is None else orjson.loads(value)
    except orjson.JSONDecodeError:
        return _text(value)


def _text(value: str | bytes | None) -> str | None:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
