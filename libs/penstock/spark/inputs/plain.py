"""Records that Penstock reads by itself, as they are plainly what their schema says (`io.penstock.sources.plain`)."""

from __future__ import annotations

from typing import Any, NamedTuple

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.classic.column import Column as JvmColumn
from pyspark.sql.types import StructType

from penstock.config.csv_options import CsvRecords
from penstock.config.model import Input
from penstock.spark.columns import java_of

PLAIN = "_penstock_plain"
"""The last field of a decoded record: true where it is plain, so it is whole; else null."""


class PlainLine(NamedTuple):
    """A form of CSV of which plain lines can be read without Spark: a line with one of the `special` characters is not
    plain."""

    delimiter: str
    special: str
    null_value: str


def plain_line(csv: CsvRecords) -> PlainLine | None:
    """None where only Spark reads such lines. Pure."""
    signs = csv.delimiter + csv.quote + csv.escape
    trims = csv.ignore_leading_white_space or csv.ignore_trailing_white_space
    if len(csv.delimiter) > 1 or not signs.isascii() or trims:
        return None
    return PlainLine(csv.delimiter, csv.quote + csv.escape, csv.null_value)


def read_plainly(session: SparkSession, source: Input, schema: StructType, by_spark: Column) -> Column:
    """The rows of JSON or CSV in the column `value`, with the field `PLAIN`. Those that are not plain are `by_spark`.

    `schema`: of Spark's rows; its last field is for the text of a corrupt record.
    """
    jvm: Any = session._jvm
    plain = jvm.io.penstock.sources.plain
    rows = (schema.json(), java_of(by_spark))
    if source.format == "json":
        return JvmColumn(plain.PlainJson.of(session._jsparkSession, java_of(F.col("value")), *rows))
    line = plain_line(source.csv)
    if line is None:
        return JvmColumn(plain.PlainRows.unmarked(*rows))
    return JvmColumn(plain.PlainCsv.of(session._jsparkSession, java_of(F.col("value")), *line, *rows))
