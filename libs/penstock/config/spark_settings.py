"""The allow-list of `spark_settings`: what a job may set in the session of its tasks, and to which values.

Allowed is what changes only this job: each task has a session of its own, but hosts are shared. Not on the list,
and so refused: what Penstock sets itself (shuffle partitions, state store provider, changelogs, checkpoint file
manager), what is shared by all tasks of a host (memory bounds, maintenance), what names a class, and what would change
the form of checkpoints, which rescaling reads and writes. A name counts as it is written here: Spark ignores the case
of some names, so another spelling would be another way to what is not allowed.

A value is refused that Spark refuses, which otherwise a task would find out at its start, and one that takes more of
the host than the setting is for. `tests/integration/spark/test_spark_settings.py` compares the values with Spark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple
from zoneinfo import ZoneInfo

_KIB, _MIB, _GIB, _TIB = (1 << shift for shift in (10, 20, 30, 40))
_UNITS = {"": 1, "b": 1, "k": _KIB, "kb": _KIB, "m": _MIB, "mb": _MIB, "g": _GIB, "gb": _GIB}
_SIZE = re.compile(r"(\d{1,18})([kmg]?b?)", re.IGNORECASE | re.ASCII)
_WHOLE = re.compile(r"-?\d{1,18}", re.ASCII)
_NUMBER = re.compile(r"\d{1,9}(\.\d{1,9})?", re.ASCII)
_OFFSET = re.compile(r"[+-](0\d|1[0-7]):[0-5]\d", re.ASCII)
_REGION = re.compile(r"(?!posix/|right/)[A-Za-z]+(/[A-Za-z0-9_+-]+){1,2}", re.ASCII)
_DEEP = "spark.sql.streaming.stateStore.rocksdb."
_ADAPTIVE = "spark.sql.adaptive."
_COMPACT = "spark.databricks.delta.autoCompact."
_OPTIMIZE = "spark.databricks.delta.optimizeWrite."


class Values(NamedTuple):
    """The values that a setting may have: in words, and whether a text is one."""

    text: str
    accepts: Callable[[str], bool]


def _one_of(*choices: str) -> Values:
    return Values(f"one of {', '.join(choices)}", lambda value: value in choices)


def _whole(least: int, most: int, *, also: int | None = None) -> Values:
    def accepts(value: str) -> bool:
        return _WHOLE.fullmatch(value) is not None and (int(value) == also or least <= int(value) <= most)

    return Values(f"a whole number, {least:,} to {most:,}" + ("" if also is None else f", or {also}"), accepts)


def _number(least: float, most: float) -> Values:
    def accepts(value: str) -> bool:
        return _NUMBER.fullmatch(value) is not None and least <= float(value) <= most

    return Values(f"a number, {least:g} to {most:g}", accepts)


def _size(least: int, most: int, *, also: str | None = None) -> Values:
    def accepts(value: str) -> bool:
        found = _SIZE.fullmatch(value)
        return value == also or (found is not None and least <= int(found[1]) * _UNITS[found[2].lower()] <= most)

    other = "" if also is None else f", or {also}"
    return Values(f"a size such as 10mb, {least:,} to {most:,} bytes{other}", accepts)


def _is_zone(value: str) -> bool:
    if value in ("UTC", "GMT", "Z") or _OFFSET.fullmatch(value):
        return True
    try:
        return _REGION.fullmatch(value) is not None and ZoneInfo(value).key == value
    except (ValueError, OSError, LookupError):
        return False


READ_BY_ANALYSIS = frozenset(
    {
        "spark.sql.ansi.enabled",
        "spark.sql.decimalOperations.allowPrecisionLoss",
        "spark.sql.legacy.timeParserPolicy",
        "spark.sql.session.timeZone",
        "spark.sql.storeAssignmentPolicy",
    }
)
"""The settings on which it depends whether Spark accepts a query: types of results, and literals. The other ones are
read when a query runs."""
_BOOLEAN = _one_of("true", "false")
_BROADCAST = _size(0, _GIB, also="-1")
_PART = _size(_MIB, _GIB)
_LEAST_PART = _size(1, _GIB)
ALLOWED_VALUES: Mapping[str, Values] = {
    "spark.sql.ansi.enabled": _BOOLEAN,
    "spark.sql.autoBroadcastJoinThreshold": _BROADCAST,
    "spark.sql.avro.compression.codec": _one_of("uncompressed", "deflate", "snappy", "bzip2", "xz", "zstandard"),
    "spark.sql.broadcastTimeout": _whole(1, 3600),
    "spark.sql.decimalOperations.allowPrecisionLoss": _BOOLEAN,
    "spark.sql.files.maxPartitionBytes": _PART,
    "spark.sql.files.maxRecordsPerFile": _whole(1000, 10**12, also=0),
    "spark.sql.join.preferSortMergeJoin": _BOOLEAN,
    "spark.sql.json.filterPushdown.enabled": _BOOLEAN,
    "spark.sql.legacy.timeParserPolicy": _one_of("EXCEPTION", "CORRECTED", "LEGACY"),
    "spark.sql.mapKeyDedupPolicy": _one_of("EXCEPTION", "LAST_WIN"),
    "spark.sql.parquet.compression.codec": _one_of("none", "uncompressed", "snappy", "gzip", "lz4", "lz4_raw", "zstd"),
    "spark.sql.parquet.filterPushdown": _BOOLEAN,
    "spark.sql.parquet.outputTimestampType": _one_of("INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"),
    "spark.sql.session.timeZone": Values("UTC, a region such as Europe/Berlin, or an offset such as +01:00", _is_zone),
    "spark.sql.storeAssignmentPolicy": _one_of("ANSI", "LEGACY", "STRICT"),
    "spark.sql.streaming.multipleWatermarkPolicy": _one_of("min", "max"),
    "spark.sql.streaming.noDataMicroBatches.enabled": _BOOLEAN,
    "spark.sql.streaming.sessionWindow.merge.sessions.in.local.partition": _BOOLEAN,
    # Spark takes the name of a class, too.
    "spark.sql.streaming.stateStore.compression.codec": _one_of("lz4", "lzf", "snappy", "zstd"),
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": _whole(1, 10_000),
    "spark.sql.streaming.stateStore.skipNullsForStreamStreamJoins.enabled": _BOOLEAN,
    f"{_ADAPTIVE}advisoryPartitionSizeInBytes": _PART,
    f"{_ADAPTIVE}autoBroadcastJoinThreshold": _BROADCAST,
    f"{_ADAPTIVE}coalescePartitions.enabled": _BOOLEAN,
    f"{_ADAPTIVE}coalescePartitions.initialPartitionNum": _whole(1, 10_000),
    f"{_ADAPTIVE}coalescePartitions.minPartitionSize": _LEAST_PART,
    f"{_ADAPTIVE}coalescePartitions.parallelismFirst": _BOOLEAN,
    f"{_ADAPTIVE}enabled": _BOOLEAN,
    f"{_ADAPTIVE}forceOptimizeSkewedJoin": _BOOLEAN,
    f"{_ADAPTIVE}localShuffleReader.enabled": _BOOLEAN,
    f"{_ADAPTIVE}maxShuffledHashJoinLocalMapThreshold": _size(0, _GIB),
    f"{_ADAPTIVE}optimizeSkewsInRebalancePartitions.enabled": _BOOLEAN,
    f"{_ADAPTIVE}rebalancePartitionsSmallPartitionFactor": _number(0.01, 0.99),
    f"{_ADAPTIVE}skewJoin.enabled": _BOOLEAN,
    f"{_ADAPTIVE}skewJoin.skewedPartitionFactor": _number(1, 1000),
    f"{_ADAPTIVE}skewJoin.skewedPartitionThresholdInBytes": _PART,
    f"{_DEEP}allowFAllocate": _BOOLEAN,
    f"{_DEEP}blockCacheSizeMB": _whole(1, 1024),
    f"{_DEEP}blockSizeKB": _whole(1, 1024),
    f"{_DEEP}compactOnCommit": _BOOLEAN,
    f"{_DEEP}compression": _one_of("lz4", "snappy", "zstd"),
    f"{_DEEP}lockAcquireTimeoutMs": _whole(1, 600_000),
    f"{_DEEP}maxOpenFiles": _whole(16, 10_000, also=-1),
    f"{_DEEP}maxWriteBufferNumber": _whole(1, 16, also=-1),
    f"{_DEEP}resetStatsOnLoad": _BOOLEAN,
    f"{_DEEP}trackTotalNumberOfRows": _BOOLEAN,
    f"{_DEEP}writeBufferSizeMB": _whole(1, 1024, also=-1),
    f"{_COMPACT}enabled": _BOOLEAN,
    f"{_COMPACT}maxFileSize": _whole(_MIB, 10 * _GIB),
    f"{_COMPACT}minFileSize": _whole(1, 10 * _GIB),
    f"{_COMPACT}minNumFiles": _whole(2, 100_000),
    f"{_OPTIMIZE}binSize": _size(_MIB, 10 * _GIB),
    f"{_OPTIMIZE}enabled": _BOOLEAN,
    f"{_OPTIMIZE}maxShufflePartitions": _whole(1, 10_000),
    f"{_OPTIMIZE}numShuffleBlocks": _whole(1, 100_000_000),
}
"""The values that each allowed setting may have."""
ALLOWED_TEXT = ", ".join(sorted(ALLOWED_VALUES))
"""What a job may set, for people."""


def is_allowed(setting: str) -> bool:
    """Whether a job may set it to some value."""
    return setting in ALLOWED_VALUES
