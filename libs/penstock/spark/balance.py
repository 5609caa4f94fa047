"""What a job's input asks of the source `penstock-kafka`, beyond Spark's own options (`jvm/.../kafka/README.md`).

Pure. Partitions are balanced only where there is an event time; without one the source reads as Spark's does.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from penstock.config.event_time import delay_millis
from penstock.config.keygroups import KeyGroupRange
from penstock.config.model import Input, JobConfig
from penstock.config.topic_patterns import regex_of_names
from penstock.config.topics import full_topic, topic_and_cluster
from penstock.config.value_schema import spelling_of

Ends = Mapping[str, Mapping[int, int]]
"""Offsets by the full name of a topic, and by key group."""

SKEW_EVERY_BATCHES = 10
DEFAULT_BATCH_SECONDS = 10.0
_NOT_BOUNDED = ("idleTimeoutMillis", "targetBatchMillis", "announce")


def limit_options(config: JobConfig) -> dict[str, str]:
    """The largest micro-batch of one input: the job's limits, shared equally by its inputs, for it reads them all.

    The inputs of a batch take as long together, so its time is not shared.
    """
    limits = {
        "maxOffsetsPerTrigger": config.max_records_per_trigger,
        "maxBytesPerTrigger": config.max_bytes_per_trigger,
    }
    share = max(1, len(config.inputs))
    options = {name: str(max(1, limit // share)) for name, limit in limits.items() if limit is not None}
    seconds = config.max_batch_seconds
    if seconds is None and not options:
        seconds = max(DEFAULT_BATCH_SECONDS, config.trigger_interval_seconds)
    return options if seconds is None else options | {"targetBatchMillis": str(math.ceil(seconds * 1000))}


def balance_options(source: Input) -> dict[str, str]:
    """Options of `penstock-kafka`: balance, skew, idle timeout."""
    options: dict[str, str] = {"balance": source.balance}
    if source.idle_timeout_seconds is not None:
        options["idleTimeoutMillis"] = str(math.ceil(source.idle_timeout_seconds * 1000))
    if source.event_time_column is None and source.balance_field is None and source.balance == "auto":
        return options | {"balance": "off"}
    return options | _field_options(source) | _skew_options(source)


def bounded(options: Mapping[str, str], source: Input, part: KeyGroupRange, stop_at: Ends) -> dict[str, str]:
    """`options` of a source that reads exactly to `stop_at`, which may lack topics that the query does not read. Of a
    pattern it reads the topics of `stop_at` only.

    Its watermark comes from these rows only: marks of producers count to where `stop_at` has their topic, and the clock
    must not carry it beyond what these offsets allow. It runs no batch without rows. Batches keep the job's own limits
    only.
    """
    kept = {name: value for name, value in options.items() if name not in _NOT_BOUNDED}
    marks = stop_at.get(full_topic(kept.get("producerMarks", ""), source.cluster))
    if marks is not None:
        kept["producerMarksUntil"] = str(marks[0])
    own = {topic_and_cluster(name)[0]: ends for name, ends in stop_at.items() if source.reads(name)}
    if not own:
        return kept
    if source.topic_pattern is not None:
        kept["subscribePattern"] = regex_of_names(list(own))
    ends = {topic: {str(group): offsets[group] for group in part.members()} for topic, offsets in own.items()}
    return kept | {"stopAtOffsets": json.dumps(ends)}


def _field_options(source: Input) -> dict[str, str]:
    """Which field of the value tells the event time: numbers are seconds, as `from_json` reads a TIMESTAMP, unless
    the event time has a format of its own."""
    pointer = source.balance_field or _pointer_to_event_time(source)
    if pointer is None or source.balance not in ("auto", "field"):
        return {}
    options = {"balanceField": pointer, "balanceFieldUnit": "seconds"}
    if source.event_time_format is None or source.balance_field is not None:
        return options
    return options | {"balanceFieldFormat": source.event_time_format}


def _pointer_to_event_time(source: Input) -> str | None:
    if source.format != "json" or source.event_time_column is None:
        return None
    name = spelling_of(source, source.event_time_column)
    return None if name is None else "/" + name.replace("~", "~0").replace("/", "~1")


def _skew_options(source: Input) -> dict[str, str]:
    options = {"skewEveryBatches": str(SKEW_EVERY_BATCHES)}
    if source.watermark_delay is None or delay_millis(source.watermark_delay) == 0:
        return options
    return options | {"skewWarningMillis": str(delay_millis(source.watermark_delay))}
