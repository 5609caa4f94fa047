"""`Input`: Kafka topics that a job reads. A part of `penstock.config.model`, declared in the same way."""

from __future__ import annotations

import operator
from functools import partial
from typing import Literal

from pydantic import Field

from penstock.config.csv_options import CsvRecords, is_default
from penstock.config.declare import DECLARED_BY_USER, ChangeKind, DeclaredModel, Identifier, Name, Topic, declare
from penstock.config.protobuf_options import ProtobufRecords
from penstock.config.starting import INPUT_POSITION, LONGEST_POSITION
from penstock.config.topic_patterns import LONGEST_PATTERN, matches
from penstock.config.topics import full_topic, topic_and_cluster

NONE, LIVE, RESTART, RESCALE, FORBIDDEN = ChangeKind
MOST_OF_A_SCHEMA = 100_000
"""Characters."""
DEFAULT_SHARE, DEFAULT_RECORDS = 0.001, 100
KafkaColumn = Literal["key", "timestamp", "topic", "partition", "offset", "headers"]


def _is_absent(value: object) -> bool:
    """For a field that is left out where it has its default: the release before does not know it."""
    return value is None


class Input(DeclaredModel):
    """One Kafka topic, or several of one form, read by key group (partition)."""

    topic: Topic | None = Field(None, **declare(FORBIDDEN, DECLARED_BY_USER))
    """Kafka topic to read. Or name several by topic_pattern."""
    topic_pattern: str | None = Field(
        None, min_length=1, max_length=LONGEST_PATTERN, exclude_if=_is_absent, **declare(FORBIDDEN, DECLARED_BY_USER)
    )
    """A regular expression in the place of topic: the input has the rows of all topics whose whole name it matches,
    such as `orders-.*` or `orders|payments`. Each topic has key_groups partitions. Topics that are made later are read
    from their beginning. It may have letters, digits, `_ - . [] () | * + ? {}`, `\\.`, `\\d` and `\\w`, with `^` at its
    beginning and `$` at its end. A group may have `?` behind it, and no `*`, `+` or `{}`. At most two of `*`, `+` and
    `{n,m}` may follow each other in a pattern, and only one beside alternatives or `?`. Topics that begin with
    two underscores, and names that end with `.penstock-marks`, match nothing. The account needs DESCRIBE to see a topic
    at all."""
    excluded_topics: tuple[Topic, ...] = Field(
        (), max_length=1000, exclude_if=operator.not_, **declare(RESTART, DECLARED_BY_USER)
    )
    """Topics that topic_pattern matches, and that are not read. To go on after a topic was deleted, name it here. What
    the job knows of these topics, their offsets, is forgotten: a topic that is removed from this list is read from its
    beginning, so rows that were read before are read again."""
    cluster: Name | None = Field(None, exclude_if=_is_absent, **declare(FORBIDDEN, DECLARED_BY_USER))
    """The Kafka cluster of the topic: a name in the setting PENSTOCK_KAFKA_CLUSTERS of the containers. Default: the
    cell's own."""
    key_groups: int = Field(..., ge=1, le=10_000, **declare(RESCALE, DECLARED_BY_USER, unit="key groups"))
    """Number of partitions of each topic. Input and state move between tasks in this unit, so it limits the number of
    tasks. When the topic has grown, set the new number; a job with state can do so only while it has one task."""
    format: Literal["json", "csv", "avro", "protobuf", "raw"] = Field("json", **declare(RESTART, DECLARED_BY_USER))
    """Encoding of the record value; `raw` gives Kafka's own columns."""
    value_schema: str | None = Field(
        None, min_length=1, max_length=MOST_OF_A_SCHEMA, **declare(RESTART, DECLARED_BY_USER)
    )
    """Schema of the record value: Spark DDL for json and csv, Avro's JSON for avro, for protobuf the base64 of a
    descriptor set (`penstock descriptor`). Not allowed for raw."""
    csv: CsvRecords = Field(default_factory=CsvRecords, exclude_if=is_default)
    protobuf: ProtobufRecords = Field(default_factory=ProtobufRecords, exclude_if=is_default)
    schema_registry: bool = Field(False, exclude_if=operator.not_, **declare(RESTART, DECLARED_BY_USER))
    """Of avro and protobuf: each record begins with a zero byte and the id (4 bytes) of its writer's schema in the
    cell's schema registry (PENSTOCK_SCHEMA_REGISTRY_URL), of protobuf also with the place of its message in the
    schema's file. value_schema is the reader's schema."""
    key_function: Literal["spark", "kafka", "crc32", "none"] = Field("none", **declare(RESCALE, DECLARED_BY_USER))
    """How the writer chose the partition of a key: `spark` by Spark's hash of key_columns (as jobs do), `kafka` by
    murmur2 of the key bytes (as Java producers do), `crc32` as librdkafka does by default (Python, C, Go), `none`
    unknown. With `none` a job with keyed state can have one task only. A sample of the topic's keys is checked, from 8
    different ones on."""
    key_columns: tuple[Identifier, ...] = Field((), max_length=32, **declare(RESCALE, DECLARED_BY_USER))
    """Columns from which the partition was computed, in their order."""
    # Left out where it is empty: the release before does not know it.
    metadata_columns: dict[KafkaColumn, Identifier] = Field(
        default_factory=dict, exclude_if=operator.not_, **declare(RESTART, DECLARED_BY_USER)
    )
    """Columns of Kafka that the query gets beside those of the value: the name that each has there, such as
    `{"timestamp": "sent_at", "key": "k"}`. Types: key BINARY, timestamp TIMESTAMP, topic STRING, partition INT, offset
    BIGINT, headers ARRAY<STRUCT<key: STRING, value: BINARY>>. Not for raw, which has all of them."""
    starting_position: str = Field(
        "earliest", pattern=INPUT_POSITION, max_length=LONGEST_POSITION, **declare(NONE, DECLARED_BY_USER)
    )
    """Where a task without a checkpoint starts to read: `earliest`, `latest`, a moment with its offset from UTC such as
    `2026-11-26T08:00:00Z`, or the first offset of each key group such as `0:120,1:95`. A moment is the first record
    with this time of Kafka or a later one; partitions without one are read from their end. It is looked up once for
    each partition: the checkpoint keeps what was found. With topic_pattern it is for the topics that are there at the
    first start of a task, and may not be offsets."""
    event_time_column: str | None = Field(None, min_length=1, max_length=200, **declare(RESTART, DECLARED_BY_USER))
    """Timestamp column with the event time. Needs watermark_delay."""
    event_time_format: str | None = Field(
        None, min_length=1, max_length=100, exclude_if=operator.not_, **declare(RESTART, DECLARED_BY_USER)
    )
    """How records of json or csv write the event time: `epoch_seconds`, `epoch_millis` (whole numbers since 1970), or a
    datetime pattern of Spark such as `dd/MM/yyyy HH:mm:ss`; without a zone it is in the job's time zone (UTC).
    value_schema declares the column as TIMESTAMP. A value of another form is malformed. Default: as Spark reads a
    TIMESTAMP."""
    watermark_delay: str | None = Field(
        None, pattern=r"^\d{1,9} (second|minute|hour|day)s?$", **declare(RESTART, DECLARED_BY_USER)
    )
    """How late a row may be, such as `10 minutes`: at most 3650 days. Needs event_time_column."""
    # Left out where it is false: the release before does not know it.
    allow_late_producers: bool = Field(False, exclude_if=operator.not_, **declare(NONE, DECLARED_BY_USER))
    """Accept that rows of slow tasks of other jobs are late. The watermark waits for the jobs that write the topic, but
    not for those of a topic_pattern, those with delivery at_least_once, and those that know no event time. An input
    with watermark_delay that reads such topics is refused otherwise."""
    balance: Literal["auto", "index", "field", "sample", "off"] = Field("auto", **declare(RESTART, DECLARED_BY_USER))
    """How partitions stay at the same event time during a catch-up: by Kafka's time index (`index`), by a field of the
    value (`field`), by sampled record timestamps (`sample`), or not at all (`off`). `auto` chooses by the input;
    without event time it is `off`."""
    balance_field: str | None = Field(
        None, max_length=1000, pattern=r"^(/[^/]+)+$", **declare(RESTART, DECLARED_BY_USER)
    )
    """JSON pointer to the event time in the value (a timestamp text or seconds). Default: the field of
    event_time_column."""
    idle_timeout_seconds: float | None = Field(
        None, ge=1, le=604_800, **declare(RESTART, DECLARED_BY_USER, unit="seconds")
    )
    """After this time without any input, the watermark advances with the clock. Older rows that arrive later are late.
    Default: never."""
    malformed: Literal["fail", "null", "dead_letter"] = Field("dead_letter", **declare(RESTART, DECLARED_BY_USER))
    """What becomes of a record that does not fit value_schema: the task fails (`fail`), the query gets what could be
    read and null for the rest (`null`), or the record goes to dead_letter_topic and not to the query (`dead_letter`).
    All are counted. A query that keeps state, and that several tasks may run, treats null keys of kafka or crc32 in
    the same way."""
    malformed_limit: float = Field(0.5, ge=0, le=1, **declare(RESTART, DECLARED_BY_USER))
    """The task fails when a larger share of its records is malformed: of 1,000 in a partition of a batch, or of the
    last batches with 100 records together. 1 sets no limit."""
    # These two are left out where they have their defaults: the release before does not know them.
    malformed_alert_share: float = Field(
        DEFAULT_SHARE, ge=0, le=1, exclude_if=partial(operator.eq, DEFAULT_SHARE), **declare(LIVE, DECLARED_BY_USER)
    )
    """The alert `malformed_records` is raised when a larger share of a task's records of five minutes is malformed.
    0: by any such record."""
    malformed_alert_records: int = Field(
        DEFAULT_RECORDS,
        ge=1,
        le=10**9,
        exclude_if=partial(operator.eq, DEFAULT_RECORDS),
        **declare(LIVE, DECLARED_BY_USER, unit="records"),
    )
    """The alert `malformed_records` is also raised when a task has at least so many malformed records in five minutes,
    whatever their share."""

    @property
    def full_topic(self) -> str:
        """The topic, or the pattern of topics, with its cluster."""
        return full_topic(self.topic or self.topic_pattern or "", self.cluster)

    def reads(self, topic: str) -> bool:
        """Whether the input reads a topic, by its full name."""
        if self.topic_pattern is None:
            return topic == self.full_topic
        name, cluster = topic_and_cluster(topic)
        return cluster == self.cluster and matches(self.topic_pattern, name, self.excluded_topics)

    def excludes(self, topic: str) -> bool:
        """Whether the input names a topic, by its full name, as one that is not read."""
        return topic in {full_topic(name, self.cluster) for name in self.excluded_topics}
