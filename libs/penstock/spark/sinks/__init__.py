"""The sinks of a task: `writer` gives a query everything but its checkpoint, trigger and name.

What each sink promises stands in README.md beside this file.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock.config.model import MAIN, DeltaOutput, FilesOutput, FunctionOutput, JobConfig, KafkaOutput, PostgresOutput
from penstock.config.outputs import each_output
from penstock.spark.settings import SparkSettings
from penstock.spark.sinks import delta, files, foreach_batch, kafka, postgres, several
from penstock.spark.sinks.context import require_distinct_columns
from penstock.spark.sinks.parts import checked_part
from penstock.spark.sinks.several import naming
from penstock.tasks.spec import TaskSpec


def check(frame: DataFrame, job: str, config: JobConfig, settings: SparkSettings, field: str = MAIN) -> None:
    """Checks what `writer` does for the rows of a job's query, of the output with this field. Nothing is created.

    Raises BrokenTask or Spark's errors when the output cannot take the rows, Unavailable when its server does not
    answer.
    """
    require_distinct_columns(frame)
    rows = checked_part(frame, config, field)
    with naming(field):
        _check(rows, job, dict(each_output(config))[field], settings)


def _check(frame: DataFrame, job: str, config: JobConfig, settings: SparkSettings) -> None:
    match config.output:
        case KafkaOutput() as output:
            kafka.check(frame, job, output, settings.cluster(output.cluster))
        case DeltaOutput() as output:
            delta.check(frame, job, config, output)
        case FilesOutput() as output:
            files.check(frame, config, output)
        case PostgresOutput() as output:
            postgres.check(frame, job, config, output, settings.connections)
        case FunctionOutput() as output:
            foreach_batch.check(frame, config, output, settings)


def writer(frame: DataFrame, spec: TaskSpec, settings: SparkSettings) -> DataStreamWriter:
    """The writer of a task's rows: output mode, format and options, or foreachBatch, are set.

    Tables and topics that are missing are created first, with the columns of `frame`. Raises BrokenTask when the
    sink cannot take what the query gives, and Unavailable when the sink's server cannot be reached.
    """
    if spec.config.side_outputs:
        return several.writer(frame, spec, settings)
    require_distinct_columns(frame)
    match spec.config.output:
        case KafkaOutput() as output:
            return kafka.writer(frame, spec, output, settings.cluster(output.cluster))
        case DeltaOutput() as output:
            return delta.writer(frame, spec, output)
        case FilesOutput() as output:
            return files.writer(frame, spec, output)
        case PostgresOutput() as output:
            return postgres.writer(frame, spec, output, settings.connections)
        case FunctionOutput() as output:
            return foreach_batch.writer(frame, spec, output, settings)
