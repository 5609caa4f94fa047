"""Rows to a Kafka topic as JSON, CSV, Avro or Protobuf: exactly once by the sink `penstock-kafka` (its README:
`spark/jvm/.../kafka`), or at least once by Spark's own, which writes the rows of a replayed batch again.

value      the row as a JSON object, nulls kept, or as a line of CSV (`text_value.py`), as an Avro record
           (`avro_value.py`), or as a message of Protobuf (`protobuf_value.py`)
key        of one string column its text as it is (what other producers write); of any other key columns a JSON
           object; none without key columns
headers    those of one column, which is then no part of the value (`headers.py`)
partition  `pmod(hash(key columns), key_groups)` by Spark's hash, when both are configured. A job that reads the
           topic with `key_function: spark` must read the key columns with the same types: an int and a long of
           the same value have different hashes
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StringType

from penstock.config.model import KafkaOutput
from penstock.control.errors import BrokenTask, Unavailable
from penstock.control.logs import logger
from penstock.control.process import wait_until
from penstock.kafka.access import Brokers, kafka_at
from penstock.spark.delivery import CheckedProducer
from penstock.spark.producers import ended, marks_topic, writer_options
from penstock.spark.sinks.avro_value import avro_value
from penstock.spark.sinks.context import column, json_text, query_id_of, require_columns, row_of
from penstock.spark.sinks.headers import headers_of, require_headers, without_headers
from penstock.spark.sinks.kafka_rights import may_not_create, require_may_commit, require_may_create
from penstock.spark.sinks.protobuf_value import keys_as_read, protobuf_value
from penstock.spark.sinks.text_value import csv_value, json_value, keys_of_csv
from penstock.spark.topics import DENIED, admin, described
from penstock.tasks.spec import TaskSpec

log = logger(__name__)

_TIMEOUT_SECONDS = 15.0
_BROKER_DEFAULT = -1
_MARKS = {
    "cleanup.policy": "compact",
    "min.compaction.lag.ms": str(24 * 3_600_000),
    "segment.ms": str(3_600_000),
}


def writer(frame: DataFrame, spec: TaskSpec, output: KafkaOutput, bootstrap: Brokers) -> DataStreamWriter:
    """Writes `frame` to the topic, made when missing with `key_groups` partitions, or the broker's default number.

    Raises BrokenTask for missing key columns or a topic of another size, Unavailable when no broker answers.
    """
    made = _prepared(frame, spec, output, bootstrap, None)
    stream = records(frame, output, made.value).writeStream.outputMode(spec.config.output_mode)
    return stream.format(made.format).options(**made.options)


def batch_writer(
    frame: DataFrame, spec: TaskSpec, output: KafkaOutput, bootstrap: Brokers, side: str | None
) -> Callable[[DataFrame, int], None]:
    """Writes batches of `frame` in `foreachBatch`, as `writer` does its stream. `side`: the name of the side output."""
    made = _prepared(frame, spec, output, bootstrap, side)

    def write(rows: DataFrame, batch_id: int) -> None:
        stream = records(rows, output, made.value).write.format(made.format).options(**made.options)
        stream.option("ofQuery", query_id_of(rows)).mode("append").save()

    return write


class _Prepared(NamedTuple):
    """What a topic gets: the value of its records, None for JSON as it is by default, and how Spark writes them."""

    value: Column | None
    format: str
    options: dict[str, str]


def _prepared(frame: DataFrame, spec: TaskSpec, output: KafkaOutput, bootstrap: Brokers, side: str | None) -> _Prepared:
    _require_columns(frame, output)
    ensure_topic(bootstrap, output.topic, output.key_groups, has_markers=output.delivery != "at_least_once")
    value = value_of(frame, output, bootstrap, registers=True)
    options = {**kafka_at(bootstrap).spark_options(), "topic": output.topic}
    if output.delivery == "at_least_once":
        return _Prepared(value, "kafka", options)
    options["transactionalIdPrefix"] = transactional_id_prefix(spec.job, spec.index, spec.generation, side)
    marks = writer_options(spec, output.topic)
    if marks:
        ensure_marks(bootstrap, marks["marksTopic"])
    return _Prepared(value, "penstock-kafka", options | marks)


def transactional_id_prefix(job: str, index: int, generation: int, side: str | None = None) -> str:
    """The name of a task's series in Kafka. Each generation has its own series; a rescale seals the old one. `side`:
    the name of the side output, for each has a series."""
    return f"penstock-{job}/{index}/{generation}" + ("" if side is None else f"/{side}")


def seal_series(session: SparkSession, bootstrap: Brokers, prefix: str) -> list[str]:
    """Fences all open producers of the series `prefix`: they cannot commit any more.

    Returns the transactional ids that were fenced. Their open transactions are aborted. Raises Py4JJavaError when Kafka
    does not answer or denies it.
    """
    jvm: Any = session._jvm
    fenced = jvm.io.penstock.kafka.sink.SeriesFence.fence(kafka_at(bootstrap).java_settings(), prefix)
    return [str(name) for name in fenced]


def value_of(frame: DataFrame, output: KafkaOutput, brokers: Brokers, *, registers: bool) -> Column | None:
    """The value of a record in the output's format; None for JSON as it is by default.

    `registers`: its schema is registered; otherwise the registry is only asked whether it would take it. Raises
    BrokenTask when a column does not fit the format, the registry takes no such schema, or the cell has no registry;
    Unavailable when the registry gives no answer.
    """
    valued = without_headers(frame, output)
    if output.value_format == "avro":
        return avro_value(valued, output, brokers, registers=registers)
    if output.value_format == "protobuf":
        return protobuf_value(valued, output, brokers, registers=registers)
    if output.value_format == "csv":
        return csv_value(valued, output)
    return None if output.timestamp_format is None else json_value(valued, output)


def records(frame: DataFrame, output: KafkaOutput, value: Column | None = None) -> DataFrame:
    """The columns `value`, `key`, `headers` and `partition` of Spark's Kafka sink, all but the first when configured.

    `value`: that of a record; the row as JSON if it is None.
    """
    keys = _keys(frame, output)
    columns = [(json_text(row_of(without_headers(frame, output))) if value is None else value).alias("value")]
    if keys:
        columns.append(_key(frame, output.key_columns, keys).alias("key"))
    if output.headers is not None:
        columns.append(headers_of(frame, output.headers).alias("headers"))
    if keys and output.key_groups is not None:
        columns.append(F.pmod(F.hash(*keys), F.lit(output.key_groups)).alias("partition"))
    return frame.select(*columns)


def ensure_topic(
    bootstrap: Brokers,
    topic: str,
    key_groups: int | None,
    settings: Mapping[str, str] | None = None,
    *,
    has_markers: bool = False,
) -> None:
    """Creates `topic` with `key_groups` partitions unless it is there; safe when several tasks do it at once.

    `key_groups` None takes any number of partitions. `settings`: of Kafka, for a new topic. `has_markers`: transactions
    have markers on the topic, for which Kafka wants the right to read it. Raises BrokenTask when the
    topic has another number or may not be written or created, Unavailable when no broker answers.
    """
    if not _is_there(bootstrap, topic, key_groups, has_markers=has_markers):
        _create(bootstrap, topic, key_groups, settings or {})


def check(frame: DataFrame, job: str, output: KafkaOutput, bootstrap: Brokers) -> None:
    """Checks what `writer` does, and that Kafka allows it; creates nothing. Raises as it does."""
    _require_columns(frame, output)
    records(frame, output, value_of(frame, output, bootstrap, registers=False))
    is_exactly_once = output.delivery != "at_least_once"
    if not _is_there(bootstrap, output.topic, output.key_groups, has_markers=is_exactly_once):
        require_may_create(bootstrap, output.topic, output.key_groups)
    if is_exactly_once:
        marks = marks_topic(output.topic)
        if marks is not None and not _is_there(bootstrap, marks, 1):
            require_may_create(bootstrap, marks, 1)
        require_may_commit(frame.sparkSession, bootstrap, transactional_id_prefix(job, 0, 1))


def _is_there(bootstrap: Brokers, topic: str, key_groups: int | None, *, has_markers: bool = False) -> bool:
    """Whether the topic exists. Raises BrokenTask when it may not be used, or has another number of partitions than
    `key_groups`."""
    found = described(bootstrap, [topic])[topic]
    if not found.may_write:
        told = f"output.topic: the hosts' account may not write the topic {topic}: grant it WRITE"
        raise BrokenTask(told, rule="topic_writable")
    if has_markers and not found.may_read:
        told = (
            f"output.topic: the hosts' account may not read the topic {topic}, on which output exactly once has markers"
        )
        raise BrokenTask(f"{told}: grant it READ", rule="topic_writable")
    if found.partitions is not None and key_groups is not None and found.partitions != key_groups:
        raise BrokenTask(f"output.key_groups: the topic {topic} has {found.partitions} partitions, not {key_groups}")
    return not found.is_missing


def ensure_marks(bootstrap: Brokers, topic: str) -> None:
    """Creates a topic of marks unless it is there. Of each producer its newest mark is kept, and all of a day."""
    ensure_topic(bootstrap, topic, 1, _MARKS)


def end_marks(bootstrap: Brokers, topic: str, job: str, generation: int) -> None:
    """Says that the tasks of `job` up to a generation write to `topic` no more, so that nobody waits for them.

    Where the hosts' account may not write there (any more), only the log says so. Raises Unavailable.
    """
    marks = marks_topic(topic)
    if marks is None or not is_marked(bootstrap, topic):
        return
    producer = CheckedProducer(kafka_at(bootstrap).client_settings(), _TIMEOUT_SECONDS)
    producer.send(marks, ended(job, generation), key=job, partition=0)
    lost = producer.lost()
    if lost is not None and lost.error is not None and lost.error.code() in DENIED:
        log.warning("last mark denied: readers wait for this job; grant WRITE", topic=marks, job=job)
    elif lost is not None:
        raise Unavailable(f"kafka did not take the last mark of {job} in {marks}: {lost}")


def is_marked(bootstrap: Brokers, topic: str) -> bool:
    """Whether producers of `topic` say how far they have come. Raises Unavailable when no broker answers."""
    marks = marks_topic(topic)
    return marks is not None and not described(bootstrap, [marks])[marks].is_missing


def _require_columns(frame: DataFrame, output: KafkaOutput) -> None:
    require_columns(frame, output.key_columns, "output.key_columns")
    if output.headers is not None:
        require_headers(frame, output.headers)


def _keys(frame: DataFrame, output: KafkaOutput) -> list[Column]:
    if output.key_columns and output.value_format == "protobuf":
        return keys_as_read(without_headers(frame, output), output)
    if output.value_format == "csv":
        return keys_of_csv(frame, output)
    return [column(name) for name in output.key_columns]


def _key(frame: DataFrame, names: tuple[str, ...], keys: list[Column]) -> Column:
    if len(names) == 1 and isinstance(frame.schema[names[0]].dataType, StringType):
        return keys[0]
    return json_text(F.struct(*keys))


def _create(bootstrap: Brokers, topic: str, key_groups: int | None, settings: Mapping[str, str]) -> None:
    new = NewTopic(
        topic,
        num_partitions=key_groups or _BROKER_DEFAULT,
        replication_factor=_BROKER_DEFAULT,
        config=dict(settings),
    )
    try:
        admin(bootstrap).create_topics([new], operation_timeout=_TIMEOUT_SECONDS)[topic].result(_TIMEOUT_SECONDS)
    except KafkaException as error:
        code = error.args[0].code()
        if code in DENIED:
            raise may_not_create(topic) from error
        if code != KafkaError.TOPIC_ALREADY_EXISTS:
            raise Unavailable(f"kafka did not create the topic {topic}: {error}") from error
    _wait_for(bootstrap, topic, key_groups)


def _wait_for(bootstrap: Brokers, topic: str, key_groups: int | None) -> None:
    """Kafka's controller has made the topic; the broker that is asked hears of it a moment later.

    Raises BrokenTask when another task has made it with another number of partitions.
    """

    def shows_it() -> bool:
        try:
            return _is_there(bootstrap, topic, key_groups)
        except Unavailable:  # A new topic may have no leader yet.
            return False

    try:
        wait_until(shows_it, _TIMEOUT_SECONDS, f"the topic {topic}")
    except TimeoutError as error:
        raise Unavailable(f"kafka made the topic {topic} and does not show it: {error}") from error
