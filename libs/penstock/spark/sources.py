"""The inputs of a task.

An input is a Kafka topic, or all topics of a pattern, read from exactly the task's key groups, transactions as
committed, and with an error where records have gone before they were read. In a catch-up its partitions keep pace in
event time. Malformed records do not reach the query (`inputs.malformed`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.config.keygroups import KeyGroupRange
from penstock.config.model import Input, JobConfig
from penstock.config.starting import starting_millis, starting_offsets
from penstock.config.topic_patterns import regex_of
from penstock.config.topics import topic_and_cluster
from penstock.spark.balance import Ends, balance_options, bounded, limit_options
from penstock.spark.inputs.malformed import DECODED, MalformedRecords, decoded, event_time_of, input_columns, is_whole
from penstock.spark.producers import reader_options
from penstock.spark.settings import SparkSettings


def read_inputs(
    session: SparkSession,
    config: JobConfig,
    part: KeyGroupRange,
    settings: SparkSettings,
    stop_at: Ends | None = None,
    malformed: MalformedRecords | None = None,
) -> dict[str, DataFrame]:
    """A frame of each input by its name, restricted to the key groups of `part`.

    `malformed` takes the malformed records; without it they are rows of nulls.

    With `stop_at`, offsets by topic and key group, they are read exactly to there, without an idle watermark.
    Raises BrokenTask when an input needs a schema and has none; Spark's own errors for a bad schema.
    """
    limits = limit_options(config)
    return {
        name: read_input(
            session, name, source, part, settings, limits | reader_options(config, source), stop_at, malformed
        )
        for name, source in config.inputs.items()
    }


def read_input(
    session: SparkSession,
    name: str,
    source: Input,
    part: KeyGroupRange,
    settings: SparkSettings,
    more: Mapping[str, str],
    stop_at: Ends | None = None,
    malformed: MalformedRecords | None = None,
) -> DataFrame:
    """A streaming frame of one input: its decoded columns, or Kafka's for `raw`, with its watermark.

    `more`: options of the job, for this input.
    """
    options = kafka_options(source, part, settings, more)
    if stop_at is not None:
        options = bounded(options, source, part, stop_at)
    records = session.readStream.format("penstock-kafka").options(**options).load()
    frame = _rows(records, name, source, settings, malformed)
    if source.event_time_column is not None and source.watermark_delay is not None:
        frame = frame.withWatermark(source.event_time_column, source.watermark_delay)
    return frame


def kafka_options(
    source: Input, part: KeyGroupRange, settings: SparkSettings, more: Mapping[str, str]
) -> dict[str, str]:
    """The options of the Kafka source."""
    options = {
        **connection_options(settings, source.cluster),
        **starting_options(source, part),
        **topic_options(source, part),
        "failOnDataLoss": "true",
    }
    if source.topic_pattern is not None:
        options["newTopicsMillis"] = str(math.ceil(settings.inputs_interval_seconds * 1000))
    if source.cluster is not None:
        options["cluster"] = source.cluster
    if "headers" in source.metadata_columns:
        options["includeHeaders"] = "true"
    return {**options, **more, **balance_options(source)}


def topic_options(source: Input, part: KeyGroupRange) -> dict[str, str]:
    """Which topics, and which of their partitions."""
    if source.topic_pattern is None:
        return {"assign": json.dumps({source.topic: list(part.members())})}
    return {
        "subscribePattern": regex_of(source.topic_pattern, source.excluded_topics),
        "keyGroups": f"{part.lo}-{part.hi}/{source.key_groups}",
    }


def starting_options(source: Input, part: KeyGroupRange) -> dict[str, str]:
    """Where to begin without a checkpoint; Spark notes in the checkpoint which offsets these are, before it reads."""
    offsets, millis = starting_offsets(source.starting_position), starting_millis(source.starting_position)
    if offsets is not None:
        own = {str(group): offsets[group] for group in part.members()}
        return {"startingOffsets": json.dumps({source.topic: own})}
    if millis is None:
        return {"startingOffsets": source.starting_position}
    return {"startingTimestamp": str(millis), "startingOffsetsByTimestampStrategy": "latest"}


def connection_options(settings: SparkSettings, cluster: str | None = None) -> dict[str, str]:
    """How a cluster is read, by streaming and batch queries. Raises BrokenTask when the container does not know it."""
    return {
        **settings.cluster(cluster).spark_options(),
        "kafka.isolation.level": "read_committed",
        # Spark reads up to offsets that are there, so a fetch never has to wait for rows. With Kafka's 500 ms the fetch
        # that a consumer sends ahead at the end of the log holds up its next question, once for each key group.
        "kafka.fetch.max.wait.ms": "10",
    }


def _rows(
    records: DataFrame, name: str, source: Input, settings: SparkSettings, malformed: MalformedRecords | None
) -> DataFrame:
    """Kafka's records to the columns of their value, by the input's format."""
    if source.format == "raw":
        return records
    if malformed is None:
        value = decoded(records.sparkSession, source, settings.kafka).alias(DECODED)
        return input_columns(records.select(value, *source.metadata_columns), source)
    return malformed.rows(name, source, records)


def first_beyond(
    session: SparkSession,
    source: Input,
    topic: str,
    settings: SparkSettings,
    event_time_ms: int,
    spans: Mapping[int, tuple[int, int]],
) -> dict[int, int]:
    """By key group of a topic of the input, by its full name: the first offset in its span whose event time is after
    `event_time_ms`; absent if there is none.

    A batch query reads the spans, of an input with an `event_time_column`. Event times are rounded down to whole
    milliseconds, as in Spark's watermark. Raises Spark's errors when the records cannot be read.
    """
    name, cluster = topic_and_cluster(topic)
    options = {
        **connection_options(settings, cluster),
        "assign": json.dumps({name: sorted(spans)}),
        "startingOffsets": json.dumps({name: {str(group): begin for group, (begin, _) in spans.items()}}),
        "endingOffsets": json.dumps({name: {str(group): until for group, (_, until) in spans.items()}}),
        "failOnDataLoss": "true",
    }
    records = session.read.format("kafka").options(**options).load()
    event_time = F.col(str(source.event_time_column))
    if source.format != "raw":
        event_time = event_time_of(source)
        value = decoded(session, source, settings.kafka).alias(DECODED)
        records = records.select("value", "partition", "offset", value)
        if source.malformed != "null":
            # The query does not get malformed records, so the event time of one is no reason to stop before it.
            records = records.where(is_whole(session, source))
    beyond = records.where(F.unix_millis(event_time) > event_time_ms)
    return {row[0]: row[1] for row in beyond.groupBy("partition").agg(F.min("offset")).collect()}
