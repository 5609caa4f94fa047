"""Whether records are in the partitions that Spark's hash gives for their key columns, by Spark itself.

The hash depends on the types of the columns: an INT and a BIGINT of one value have different hashes. So the records are
decoded as the query of the job reads them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.config.model import Input
from penstock.kafka.access import Brokers
from penstock.spark.inputs.malformed import DECODED, columns, decoded, is_whole

_FOUND = "_penstock_partition"
_RECORD = f"{_FOUND} int, key binary, value binary"


class Record(Protocol):
    """Where a record is, and what it holds."""

    @property
    def partition(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...


def placed_by_spark(
    session: SparkSession, source: Input, found: Iterable[Record], brokers: Brokers = ""
) -> dict[str, bool]:
    """By the JSON of the key: whether all its records are in the partition that Spark's hash gives.

    Malformed records and keys with a null are left out, and so is all of a key that the format does not have.
    """
    rows = [(each.partition, each.key, each.value) for each in found if each.value is not None]
    frame = _decoded(session, source, session.createDataFrame(rows, _RECORD), brokers) if rows else None
    if frame is None or not {name.lower() for name in source.key_columns} <= {name.lower() for name in frame.columns}:
        return {}
    keys = [F.col(f"`{name}`") for name in source.key_columns]
    is_there = F.pmod(F.hash(*keys), F.lit(source.key_groups)) == F.col(_FOUND)
    placed = frame.dropna(subset=list(source.key_columns)).select(
        F.to_json(F.struct(*keys)).alias("name"), is_there.alias("is_there")
    )
    all_there: dict[str, bool] = {}
    for name, there in placed.collect():
        all_there[name] = there and all_there.get(name, True)
    return all_there


def _decoded(session: SparkSession, source: Input, records: DataFrame, brokers: Brokers) -> DataFrame:
    if source.format == "raw":
        return records
    value = decoded(session, source, brokers).alias(DECODED)
    whole = records.select(_FOUND, "value", value).where(is_whole(session, source))
    return columns(whole, source, _FOUND)
