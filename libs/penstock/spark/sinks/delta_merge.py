"""Rows into a Delta table by key, exactly once: each batch is one MERGE.

Delta records (id of the query in its checkpoint, batch id) in the transaction of the merge and skips a batch that it
has, also one of a zombie that is behind its successor; it is the same record that Delta's streaming sink leaves. A
merge reads the files in which its keys may be, so merges of several tasks collide: `delta_conflicts`. With partitions
by a part of the key, a merge names its partitions, reads only these, and collides only with merges there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from operator import and_, or_

from delta.tables import DeltaMergeBuilder, DeltaTable
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    DateType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    VariantType,
)

from penstock.config.model import DeltaOutput
from penstock.control.errors import BrokenTask
from penstock.spark.sinks.context import column, kept, query_id_of, quoted, require_columns
from penstock.spark.sinks.delta_conflicts import Stop, retry_conflicts
from penstock.spark.sinks.interrupts import interruptible

_TABLE, _ROWS = "penstock_table", "penstock_rows"
_COUNT, _IS_NULL = "penstock_count", "penstock_is_null"
_TXN = "spark.databricks.delta.write.txn"
# A condition with more partitions costs more than it spares.
_MOST_PARTITIONS = 100
# Their values are the same after a way through Python.
_NAMED_TYPES = (BooleanType, ByteType, DateType, IntegerType, LongType, ShortType, StringType)


def require_key(frame: DataFrame, output: DeltaOutput) -> None:
    """Raises BrokenTask when `output.upsert_columns` is no key of the query's rows."""
    require_columns(frame, output.upsert_columns, "output.upsert_columns")
    for name in output.upsert_columns:
        kind = frame.schema[name].dataType
        if isinstance(kind, MapType | VariantType):
            raise BrokenTask(
                f"output.upsert_columns: column {name} is of type {kind.simpleString()}, whose values Spark cannot "
                "compare",
                rule="comparable_key",
            )


class DeltaMerge:
    """Merges the batches of one task into the table of `output`."""

    def __init__(self, task_id: str, output: DeltaOutput) -> None:
        self._task_id = task_id
        self._output = output

    def write(self, frame: DataFrame, batch_id: int) -> None:
        """Merges a micro-batch unless the table has it.

        Raises BrokenTask when a key is null or comes twice, Unavailable when other writers are always first, and
        Spark's errors; they end the query, and its next start repeats the batch. The frame is run in any case, or the
        next batch would not find its state.
        """
        with kept(frame) as rows:
            if self._check(rows) > 0:
                self._merge(rows, query_id_of(frame), batch_id)

    def _check(self, rows: DataFrame) -> int:
        """How many rows there are. Raises BrokenTask when their keys are no keys."""
        keys = [column(name) for name in self._output.upsert_columns]
        is_null = reduce(or_, (key.isNull() for key in keys))
        by_key = rows.groupBy(*keys).agg(F.count("*").alias(_COUNT), F.max(is_null).alias(_IS_NULL))
        found = by_key.agg(F.sum(_COUNT), F.max(_COUNT), F.max(_IS_NULL)).head()
        count, most, has_null = found or (0, 0, False)
        if has_null:
            raise BrokenTask(
                f"output.upsert_columns: {' or '.join(self._output.upsert_columns)} is null in a row of the batch; "
                "replace it in the query, for example by coalesce"
            )
        if (most or 0) > 1:
            raise BrokenTask(
                "output.upsert_columns: two rows of one batch have the same key; the query must give one row a key, "
                "for example by an aggregation over the key in update mode"
            )
        return count or 0

    def _merge(self, rows: DataFrame, query_id: str, batch_id: int) -> None:
        conf, stop = rows.sparkSession.conf, Stop()
        conf.set(f"{_TXN}AppId", query_id)
        conf.set(f"{_TXN}Version", str(batch_id))
        condition = self._condition(rows)
        try:
            with interruptible(self._task_id, stop.request):
                retry_conflicts(self._output.path, lambda: self._statement(rows, condition).execute(), stop)
        finally:
            # What other outputs of the job write to Delta tables is not this batch of this table.
            conf.unset(f"{_TXN}AppId")
            conf.unset(f"{_TXN}Version")

    def _statement(self, rows: DataFrame, condition: Column) -> DeltaMergeBuilder:
        """Made for each attempt: it holds the version of the table that it reads."""
        table = DeltaTable.forPath(rows.sparkSession, self._output.path).alias(_TABLE)
        values: dict[str, str | Column] = {quoted(name): _of(_ROWS, name) for name in rows.columns}
        keys = {quoted(name) for name in self._output.upsert_columns}
        others = {name: value for name, value in values.items() if name not in keys}
        merge = table.merge(rows.alias(_ROWS), condition)
        if others:
            merge = merge.whenMatchedUpdate(set=others)
        return merge.whenNotMatchedInsert(values=values)

    def _condition(self, rows: DataFrame) -> Column:
        same = [_of(_TABLE, name) == _of(_ROWS, name) for name in self._output.upsert_columns]
        return reduce(and_, [*same, *self._partitions(rows)])

    def _partitions(self, rows: DataFrame) -> Iterator[Column]:
        """In which partitions the keys of the batch are, by their values; nothing when they are too many."""
        names = named_partitions(self._output, rows.schema)
        if not names:
            return
        found = rows.select(*map(column, names)).distinct().limit(_MOST_PARTITIONS + 1).collect()
        if len(found) <= _MOST_PARTITIONS:
            yield reduce(or_, (_is_partition(names, values) for values in found))


def named_partitions(output: DeltaOutput, schema: StructType) -> list[str]:
    """The partition columns that are in the key, and of a type whose values a condition can name. Pure."""
    keys = {name.lower() for name in output.upsert_columns}
    types: dict[str, DataType] = {field.name.lower(): field.dataType for field in schema.fields}
    return [
        name
        for name in output.partition_columns
        if name.lower() in keys and isinstance(types[name.lower()], _NAMED_TYPES)
    ]


def _is_partition(names: Sequence[str], values: Row) -> Column:
    return reduce(and_, (_of(_TABLE, name) == F.lit(value) for name, value in zip(names, values, strict=True)))


def _of(alias: str, name: str) -> Column:
    return F.col(f"{alias}.{quoted(name)}")
