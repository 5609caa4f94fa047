"""The sinks of a task: `writer` gives a query everything but its checkpoint, trigger and name.

What each sink promises stands in README.md beside this file.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock.config.model import DeltaOutput, FilesOutput, KafkaOutput, PostgresOutput
from penstock.spark.sinks import delta, files, kafka, postgres
from penstock.spark.sinks.context import SinkContext, require_distinct_columns
from penstock.spark.sinks.files import read_all
from penstock.tasks.spec import TaskSpec

__all__ = ["SinkContext", "read_all", "writer"]


def writer(frame: DataFrame, spec: TaskSpec, context: SinkContext) -> DataStreamWriter:
    """The writer of a task's rows: output mode, format and options, or foreachBatch, are set.

    Tables and topics that are missing are created first, with the columns of `frame`. Raises BrokenTask when the
    sink cannot take what the query gives, and Unavailable when the sink's server cannot be reached.
    """
    require_distinct_columns(frame)
    match spec.config.output:
        case KafkaOutput() as output:
            return kafka.writer(frame, spec, output, context.kafka_bootstrap)
        case DeltaOutput() as output:
            return delta.writer(frame, spec, output)
        case FilesOutput() as output:
            return files.writer(frame, spec, output)
        case PostgresOutput() as output:
            return postgres.writer(frame, spec, output, context.connections)
