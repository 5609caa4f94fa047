"""Records of a topic, for people: lines in, JSON lines out. A job's rows go another way (`penstock.spark`)."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from typing import IO, Any, Literal, NamedTuple
from uuid import uuid4

import orjson
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from penstock.control.errors import UserError
from penstock.kafka.access import Brokers, kafka_at
from penstock.local.topics import end_offsets, no_answer, silent
from penstock.spark.delivery import CheckedProducer
from penstock.spark.inputs.key_hash import HASHES

KeyFunction = Literal["kafka", "crc32"]
_OBEYED = re.compile("[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_ANY_PARTITION = -1
_FLUSH_S = 30.0
# Readers wait so long for a transaction that its producer has left. Brokers allow 15 minutes at most by default.
_TRANSACTION_S, _MOST_TRANSACTION_S = 60, 900
_CHARACTERS_PER_S = 1_000_000
_POLL_S = 0.1
_CONNECT_S = 30.0
_AT_ONCE = 500
_NONE_SENT = "Nothing was sent"
_JSON_LINES = (
    f'{_NONE_SENT}. Each line must be one object, such as {{"id": 1}}; `penstock topics produce TOPIC --format raw` '
    "sends lines of any text"
)
_REASON = "penstock.reason"
"""The header that a dead letter has, beside those of the place of the record that it is a copy of."""
_PLACE = ("topic", "partition", "offset")


class Record(NamedTuple):
    """A record to send."""

    value: str | bytes
    key: bytes | None


Form = Callable[[str, int], Record]
"""Makes a record of a line, which has no end, and its number. Raises UserError, which names the line."""
Format = Literal["json", "raw", "base64"]


def produce(
    bootstrap: Brokers,
    topic: str,
    partitions: int,
    lines: IO[str],
    form: Form,
    function: KeyFunction = "kafka",
) -> int:
    """Sends each line as a record, all in one transaction, and returns their number. Empty lines are passed over.
    `lines` are read twice. `partitions`: those of the topic. `function` decides the partition of a key.

    Raises UserError for a line that `form` refuses, and Unavailable: then none of the records counts, unless its text
    says that all may.
    """
    count = characters = 0
    for record in _to_send(lines, form):
        count, characters = count + 1, characters + len(record.value)
    if count:
        lines.seek(0)
        timeout_ms = 1000 * transaction_seconds(characters)
        own = {"transactional.id": f"penstock-cli-{uuid4()}", "transaction.timeout.ms": timeout_ms}
        settings = {**kafka_at(bootstrap).client_settings(), "linger.ms": 20, **own}
        producer = CheckedProducer(settings, _FLUSH_S, silent)
        with producer.transaction(f"kafka at {bootstrap}", f"`penstock topics consume {topic} --from-beginning`"):
            for record in _to_send(lines, form):
                partition = partition_of(record.key, function, partitions)
                producer.send(topic, record.value, key=record.key, partition=partition)
    return count


def transaction_seconds(characters: int) -> int:
    """After how long Kafka ends a transaction with values of this size: a minute, and the time of a slow connection."""
    return min(_TRANSACTION_S + characters // _CHARACTERS_PER_S, _MOST_TRANSACTION_S)


def json_lines(key: Sequence[str] = ()) -> Form:
    """Lines that are JSON objects. The record's key is these columns."""
    return lambda line, number: Record(line.strip(), key_of(row_of(line, number), key, number))


def plain_lines(separator: str | None, *, is_base64: bool = False) -> Form:
    """Lines that are the value, as a text or in base64. With a separator, the key's text is before the first one in the
    line, and nothing there is no key."""

    def record(line: str, number: int) -> Record:
        key, value = (None, line) if separator is None else _divided(line, separator, number)
        return Record(_bytes_of(value, number) if is_base64 else value, key)

    return record


def _divided(line: str, separator: str, number: int) -> tuple[bytes | None, str]:
    key, found, value = line.partition(separator)
    if not found:
        detail = f"line {number} has no {separator!r} between key and value. {_NONE_SENT}"
        raise UserError(detail, field="rows", rule="separator")
    return key.encode() or None, value


def _bytes_of(text: str, number: int) -> bytes:
    try:
        return base64.b64decode(text.strip(), validate=True)
    except ValueError as error:
        detail = f"line {number} is not base64: {error}. {_NONE_SENT}"
        raise UserError(detail, field="rows", rule="base64_lines") from error


def _to_send(lines: Iterable[str], form: Form) -> Iterator[Record]:
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield form(line.removesuffix("\n"), number)


def row_of(line: str, number: int) -> Mapping[str, Any]:
    """A line as a JSON object, its numbers as they are written. Raises UserError that names the line."""
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        why = f"line {number} is not JSON ({error.msg}, at character {error.pos + 1})"
        raise UserError(f"{why}. {_JSON_LINES}", field="rows", rule="json_lines") from error
    if not isinstance(row, dict):
        raise UserError(f"line {number} is not a JSON object. {_JSON_LINES}", field="rows", rule="json_lines")
    # orjson would make a double of each number with a point, and of each large one.
    written: dict[str, Any] = json.loads(line, parse_float=orjson.Fragment, parse_int=orjson.Fragment)
    return written


def key_of(row: Mapping[str, Any], columns: Sequence[str], number: int) -> bytes | None:
    """The record's key: one column as its text, several as a JSON array; None without columns, or for one null."""
    missing = [name for name in columns if name not in row]
    if missing:
        detail = f"line {number} has no column {', '.join(missing)}; it has {', '.join(row) or 'none'}. {_NONE_SENT}"
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
    bootstrap: Brokers, topic: str, *, from_beginning: bool, count: int | None, idle_seconds: float | None
) -> Iterator[Message]:
    """Committed records of a topic as they come, also those that come later; from now on unless `from_beginning`.

    Ends after `count` records. Raises TimeoutError when the end is reached and nothing comes for `idle_seconds`;
    NotFound, Unavailable.
    """
    begins = end_offsets(bootstrap, topic)
    asked = Asked(topic, count, idle_seconds, skips=not from_beginning and any(each.offset for each in begins))
    if from_beginning:
        begins = [TopicPartition(topic, each.partition, OFFSET_BEGINNING) for each in begins]
    own = {"group.id": f"penstock-cli-{uuid4()}", "enable.auto.commit": False, "enable.partition.eof": True}
    settings = {**kafka_at(bootstrap).client_settings(), "isolation.level": "read_committed", **own}
    with closing(Consumer(settings, logger=silent)) as consumer:
        consumer.assign(begins)
        yield from islice(_records(consumer, bootstrap, asked, len(begins)), count)


class Asked(NamedTuple):
    """What is to be read: so many records, or all (None), until none comes for a time. `skips`: records may be there
    that are passed over, since only new ones are read."""

    topic: str
    wanted: int | None
    idle_seconds: float | None
    skips: bool = False


def why_no_more(asked: Asked, seen: int, *, is_at_end: bool) -> str:
    """What has come and what has not, and what to look at. Pure."""
    seconds = f"{asked.idle_seconds:g} s"
    if not is_at_end:
        return f"Kafka has not sent all of {asked.topic} and sends nothing for {seconds}: see `penstock doctor`"
    if seen == 0:
        told = f"no record of {asked.topic} came for {seconds}"
    else:
        of = "" if asked.wanted is None else f" of {asked.wanted:,}"
        told = f"{seen:,}{of} records of {asked.topic} came, then none for {seconds}"
    if asked.skips:
        return f"{told}. Only new ones are read: add --from-beginning for those that were there before"
    return (
        f"{told}: it has no more. `penstock topics list` shows what topics have, `penstock why JOB` what is wrong with "
        "the job that writes this one"
    )


def _records(consumer: Consumer, bootstrap: Brokers, asked: Asked, partitions: int) -> Iterator[Message]:
    at_end: set[int | None] = set()
    since, seen = time.monotonic(), 0
    while True:
        for message in consumer.consume(_AT_ONCE, _POLL_S):
            since = time.monotonic()
            error = message.error()
            if error is None:
                at_end.discard(message.partition())
                seen += 1
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                at_end.add(message.partition())
            else:
                raise no_answer(bootstrap, KafkaException(error))
        # To connect takes a while, which says nothing about the topic.
        is_at_end = len(at_end) == partitions
        patience = 0.0 if is_at_end else _CONNECT_S
        if asked.idle_seconds is not None and time.monotonic() - since >= asked.idle_seconds + patience:
            raise TimeoutError(why_no_more(asked, seen, is_at_end=is_at_end))


def value_line(message: Message, *, as_base64: bool = False) -> str:
    """The value of a record as a line: of JSON, as it is written if it is JSON, else as a text; or as base64, which
    `produce` takes, empty without a value. Of a dead letter also the place and the reason."""
    if as_base64:
        return _base64(message.value()) or ""
    letter = _letter(message)
    return _line(_json(message.value()) if letter is None else letter)


def _letter(message: Message) -> dict[str, Any] | None:
    """Where the record was that a dead letter is a copy of, and why it was malformed; None for any other record."""
    headers = _headers(message)
    if _REASON not in headers:
        return None
    topic, *place = (headers.get(f"penstock.{name}") for name in _PLACE)
    partition, offset = (int(text) if text is not None and text.isdecimal() else text for text in place)
    facts = {"topic": topic, "partition": partition, "offset": offset, "reason": headers[_REASON]}
    return {**facts, "key": _text(message.key()), "value": _json(message.value())}


def record_line(message: Message, *, as_base64: bool = False) -> str:
    """All of a record as a line of JSON; its key and value as texts, or as base64."""
    facts = {"partition": message.partition(), "offset": message.offset(), "timestamp": message.timestamp()[1]}
    key, value = (_base64, _base64) if as_base64 else (_text, _json)
    return _line({**facts, "key": key(message.key()), "headers": _headers(message), "value": value(message.value())})


def _headers(message: Message) -> dict[str, str | None]:
    return {str(name): _text(value) for name, value in list(message.headers() or ())}


def _line(value: Any) -> str:
    """JSON with what a terminal would obey, or show in another order, as escapes: they can only be in texts."""
    return _OBEYED.sub(lambda each: f"\\u{ord(each[0]):04x}", orjson.dumps(value).decode())


def _base64(value: str | bytes | None) -> str | None:
    if value is None:
        return None
    return base64.b64encode(value.encode() if isinstance(value, str) else value).decode()


def _json(value: str | bytes | None) -> Any:
    text = _text(value)
    try:
        orjson.loads(value or b"")
    except orjson.JSONDecodeError:
        return text
    # In JSON a line ends only between values.
    return orjson.Fragment(" ".join(re.split("[\r\n]", str(text))).strip())


def _text(value: str | bytes | None) -> str | None:
    """Bytes that are no text are shown as `\\xff`."""
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else value
