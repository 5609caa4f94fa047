"""A sample of the newest keys of a topic, and what it says against the declared `key_function`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import monotonic
from typing import NamedTuple
from uuid import uuid4

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from pyspark.sql import SparkSession

from penstock.config.model import Input
from penstock.config.problems import Problem
from penstock.config.topics import topic_and_cluster
from penstock.control.errors import Unavailable
from penstock.kafka.access import Brokers, kafka_at
from penstock.spark.inputs.key_hash import FEWEST_KEYS, HASHES, PlacedKey, fits
from penstock.spark.inputs.spark_placement import placed_by_spark

_MOST_PARTITIONS = 8
_RECORDS_EACH = 16
START_SECONDS = 5.0
"""For how long a start waits for a sample, and a running task."""


class SampledKey(NamedTuple):
    """A record's key and value. `column`: the bytes of the key column, or None if the value does not show them.
    `offset`: None where it does not matter."""

    partition: int
    key: bytes | None
    column: bytes | None
    value: bytes | None = None
    offset: int | None = None


class Sample(NamedTuple):
    """The newest records of some partitions. `is_cut`: the time ended before all were read."""

    records: list[SampledKey]
    is_cut: bool = False


def has_key_rule(source: Input) -> bool:
    """Whether an input says where records with a key are, so that a sample could contradict it."""
    return source.key_function != "none" and source.key_groups > 1


def key_function_problem(
    name: str,
    source: Input,
    topic: str,
    bootstrap: Brokers,
    session: SparkSession,
    found: Sequence[SampledKey] | None = None,
) -> Problem | None:
    """Why the newest records of a topic of the input contradict `key_function`; None also when there are too few.

    `topic`: its full name. `found`: these records; None: they are read now, within `START_SECONDS`. Raises Unavailable
    when Kafka does not answer.
    """
    if not has_key_rule(source):
        return None
    if found is None:
        found = sample(source, topic, bootstrap, START_SECONDS).records
    if source.key_function in HASHES:
        return judge(name, source, topic, found)
    return judge_spark(name, source, topic, found, placed_by_spark(session, source, found, bootstrap))


def judge(name: str, source: Input, topic: str, found: Sequence[SampledKey]) -> Problem | None:
    """What the sample says against the declaration. Pure.

    State is moved by the bytes of the key column, so these count where they are known.
    """
    columns = _column_keys(found)
    good, count = fits(source.key_function, columns, source.key_groups), len(columns)
    return _problem(name, source, topic, good, count, lambda: _remedy(source, found, columns))


def judge_spark(
    name: str, source: Input, topic: str, found: Sequence[SampledKey], placed: Mapping[str, bool]
) -> Problem | None:
    """As `judge`, for `key_function: spark`. `placed`: by key, whether it is where Spark puts it. Pure."""
    return _problem(name, source, topic, sum(placed.values()), len(placed), lambda: _remedy_of_spark(source, found))


def _problem(name: str, source: Input, topic: str, good: int, count: int, remedy: Callable[[], str]) -> Problem | None:
    """None when all of `count` keys are `good`, and when they are too few to tell."""
    if count < FEWEST_KEYS or good == count:
        return None
    field = f"inputs.{name}.key_function"
    said = (
        f"{field} is {source.key_function}, but only {good} of {count} sampled keys of the topic {topic} "
        "are in the partition that it gives"
    )
    return Problem(field, "key_function_of_producer", f"{said}: {remedy()}")


def _column_keys(found: Iterable[SampledKey]) -> list[PlacedKey]:
    return _distinct((each.partition, each.key if each.column is None else each.column) for each in found)


def _remedy_of_spark(source: Input, found: Sequence[SampledKey]) -> str:
    other = _fitting(_column_keys(found), source.key_groups)
    if other is not None:
        return _use(other)
    return (
        "Spark's hash depends on the type, so give the key columns the types that they have in the job that writes the "
        "topic; or set key_function to none, and put a shuffle job before a query that keeps state"
    )


def _use(function: str) -> str:
    return f"{function} gives the partition of all of them, so set key_function to {function}"


def _fitting(keys: Sequence[PlacedKey], partitions: int) -> str | None:
    """The function that gives the partition of all keys, if they are enough to tell."""
    enough = len(keys) >= FEWEST_KEYS
    return next((each for each in HASHES if enough and fits(each, keys, partitions) == len(keys)), None)


def _remedy(source: Input, found: Sequence[SampledKey], columns: Sequence[PlacedKey]) -> str:
    other = _fitting(columns, source.key_groups)
    if other is not None:
        return _use(other)
    function = _fitting(_distinct((each.partition, each.key) for each in found), source.key_groups)
    keyless = next((each for each in found if each.key is None and each.column is not None), None)
    if function is not None and keyless is not None and _fits_by_column(function, found, source.key_groups):
        return (
            f"the record at partition {keyless.partition}, offset {keyless.offset} has no key, so its partition says "
            "nothing. Have its producer send keys and make the topic again without it; "
            "or set key_function to none and put a shuffle job before a query that keeps state"
        )
    if function is not None:
        return (
            f"{function} gives the partition of all record keys, but the column {source.key_columns[0]} does not "
            "have the bytes of the record's key. Name the column that has in key_columns, or set key_function to "
            "none and put a shuffle job before a query that keeps state"
        )
    return (
        f"none of {', '.join(HASHES)} gives the partition of all of them. Set key_function to none, and put a shuffle "
        "job before a query that keeps state"
    )


def _fits_by_column(function: str, found: Sequence[SampledKey], partitions: int) -> bool:
    """Whether all records with a key are where the function puts the value of their key column."""
    keys = _column_keys([each for each in found if each.key is not None])
    return fits(function, keys, partitions) == len(keys)


def _distinct(keys: Iterable[tuple[int, bytes | None]]) -> list[PlacedKey]:
    """Without null keys, which are anywhere."""
    return sorted({PlacedKey(key, partition) for partition, key in keys if key is not None})


def sample(source: Input, topic: str, bootstrap: Brokers, within_seconds: float) -> Sample:
    """The newest records of some partitions of a topic, by its full name; fewer where not all come in time.

    `within_seconds`: for all partitions together. Raises Unavailable.
    """
    deadline = monotonic() + within_seconds
    consumer = Consumer(
        {
            **kafka_at(bootstrap).client_settings(),
            "group.id": f"penstock-sample-{uuid4()}",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    plain = topic_and_cluster(topic)[0]
    try:
        records, is_cut = _newest(consumer, source, plain, deadline)
        return Sample([_sampled(source, record) for record in records], is_cut)
    except KafkaException as error:
        raise Unavailable(f"kafka did not give records of {topic}: {error.args[0].str()}") from error
    finally:
        consumer.close()


def _newest(consumer: Consumer, source: Input, topic: str, deadline: float) -> tuple[list[Message], bool]:
    """The records, and whether there was no time for all."""
    places, is_cut = _places(consumer, source, topic, deadline)
    if not places:
        return [], is_cut
    consumer.assign(places)
    records, is_open = _read(consumer, {place.partition for place in places}, deadline)
    return records, is_cut or is_open


def _places(consumer: Consumer, source: Input, topic: str, deadline: float) -> tuple[list[TopicPartition], bool]:
    """Where the newest records of some partitions begin, and whether there was no time for all of these. A slow broker
    is asked about fewer, since half of the time is for the records. Raises KafkaException, also when the time ends
    before any record is known."""
    half = (monotonic() + deadline) / 2
    step = max(1, source.key_groups // _MOST_PARTITIONS)
    places: list[TopicPartition] = []
    for partition in range(0, source.key_groups, step)[:_MOST_PARTITIONS]:
        left = (half if places else deadline) - monotonic()
        try:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=max(left, 0.001))
        except KafkaException as error:
            if places and error.args[0].code() == KafkaError._TIMED_OUT:
                return places, True
            raise
        if high > low:
            places.append(TopicPartition(topic, partition, max(low, high - _RECORDS_EACH)))
    return places, False


def _read(consumer: Consumer, partitions: set[int], deadline: float) -> tuple[list[Message], bool]:
    """So many records of each partition, or all up to its end: offsets may be markers of transactions. And whether some
    have not come in time, and are left out."""
    records: dict[int, list[Message]] = {partition: [] for partition in partitions}
    open_partitions = set(partitions)
    while open_partitions:
        got = consumer.poll(max(0.0, deadline - monotonic()))
        if got is None:
            break
        error, partition = got.error(), got.partition()
        if partition not in open_partitions:
            continue
        if error is None:
            records[partition].append(got)
        is_end = error is not None and error.code() == KafkaError._PARTITION_EOF
        if is_end or len(records[partition]) >= _RECORDS_EACH:
            open_partitions.discard(partition)
    return [record for each in records.values() for record in each], bool(open_partitions)


def _sampled(source: Input, record: Message) -> SampledKey:
    key, value = (each.encode() if isinstance(each, str) else each for each in (record.key(), record.value()))
    partition = record.partition()
    assert partition is not None
    return SampledKey(partition, key, key_in(source, value), value, record.offset())


def key_in(source: Input, value: bytes | None) -> bytes | None:
    """The bytes of the key column of a JSON record, if it is one text column. None also of a record that cannot be
    read: it has no key to compare."""
    if source.format != "json" or len(source.key_columns) != 1 or value is None:
        return None
    try:
        record = json.loads(value)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    found = {name.lower(): each for name, each in record.items()}.get(source.key_columns[0].lower())
    return found.encode() if isinstance(found, str) else None
