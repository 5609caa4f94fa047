"""Rows as JSON or CSV: the value of a record."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StringType

from penstock.config.csv_options import CsvRecords, CsvValue
from penstock.config.model import KafkaOutput
from penstock.control.errors import BrokenTask
from penstock.spark.csv_options import options_of, record_options
from penstock.spark.sinks.context import JSON_OPTIONS, column
from penstock.spark.sinks.written_times import as_written, require_writable_times, timestamp_options

_READ_ALIKE = ("delimiter", "quote", "escape", "null_value")


def json_value(frame: DataFrame, output: KafkaOutput) -> Column:
    """The value of a record as a JSON object, nulls kept. Raises BrokenTask for times that `timestamp_format` cannot
    write."""
    require_writable_times(frame, output.timestamp_format, output.key_columns)
    row = F.struct(*as_written(frame, output.timestamp_format))
    return F.to_json(row, {**JSON_OPTIONS, **timestamp_options(output.timestamp_format)})


def csv_value(frame: DataFrame, output: KafkaOutput) -> Column:
    """The value of a record as a line of CSV without its end. Raises BrokenTask for a column that is not one value, and
    for times that `timestamp_format` cannot write."""
    require_csv(frame, "output.value_format")
    require_writable_times(frame, output.timestamp_format, output.key_columns)
    row = F.struct(*as_written(frame, output.timestamp_format))
    line = F.to_csv(row, {**timestamp_options(output.timestamp_format), **options_of(output.csv)})
    # Spark makes null of a row of one null, which in Kafka is the deletion of the key.
    return F.coalesce(line, F.lit(""))


def keys_of_csv(frame: DataFrame, output: KafkaOutput) -> list[Column]:
    """The key columns as readers with the same options have them: a text without the blanks that are left out, and null
    where the text is written as null is. By these they look for a row."""
    return [_as_read(frame, output.csv, name) for name in output.key_columns]


def require_csv(frame: DataFrame, field: str) -> None:
    """Raises BrokenTask when a column has a type that CSV does not have. `field`: what asks for CSV."""
    binary = [each.name for each in frame.schema if isinstance(each.dataType, BinaryType)]
    if binary:
        told = f"{field}: csv has no bytes, as the column {binary[0]} is: write hex({binary[0]}) or base64({binary[0]})"
        raise BrokenTask(told, rule="columns_of_csv")
    jvm: Any = frame.sparkSession._jvm
    sources = jvm.org.apache.spark.sql.execution.datasources
    try:
        sources.DataSourceUtils.verifySchema(sources.csv.CSVFileFormat(), frame._jdf.schema(), False)
    except (Py4JJavaError, PySparkException) as error:
        why = error.java_exception.getMessage() if isinstance(error, Py4JJavaError) else str(error).splitlines()[0]
        raise BrokenTask(f"{field}: the columns of the query do not fit CSV: {why}", rule="columns_of_csv") from error


def _as_read(frame: DataFrame, csv: CsvValue, name: str) -> Column:
    if not isinstance(frame.schema[name].dataType, StringType):
        return column(name)
    # Not alone: a line of one empty value would be none.
    written = F.to_csv(F.struct(column(name), F.lit(0)), options_of(csv))
    reader = CsvRecords(**{option: getattr(csv, option) for option in _READ_ALIKE})
    return F.from_csv(written, "text STRING, behind INT", record_options(reader)).getField("text").alias(name)
