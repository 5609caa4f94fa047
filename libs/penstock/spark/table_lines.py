"""The lines of a table's files, each as the text of a record, with its file and its place there.

A row of CSV may have several lines (`multi_line`). Only Spark's reader finds where it ends, and that gives no text of
the row. So it reads all columns as texts, and these are written as one record in a form of its own (`ROWS`).
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from penstock.config.csv_options import CsvRecords
from penstock.config.model import Input, Table
from penstock.spark.csv_options import options_of
from penstock.spark.inputs.malformed import no_fit
from penstock.spark.inputs.misread import text_of

VALUE, FILE, ORDER, WHY = "value", "file", "order", "why"
"""`why`: the line is malformed for this reason, whatever its text; null where the text tells."""
# A character of no text: what is empty in such a record is null, and two quotes are an empty text.
ROWS = CsvRecords(escape='"', null_value="\ue000")
_WRITTEN = {**options_of(ROWS), "ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}
_UNFIT = "_penstock_unfit"
# What Java makes of bytes that are no character.
_NO_CHARACTER = "\ufffd"


def has_rows(table: Table) -> bool:
    """Whether it is rows that are read, without the header, and not lines."""
    return table.format == "csv" and table.csv.multi_line


def placed_lines(session: SparkSession, table: Table, path: str, fields: StructType) -> DataFrame:
    """The lines or rows. `fields`: the columns that the files have, as `table` has the names of folders, too."""
    frame = _rows(session, table, path, fields) if has_rows(table) else _lines(session, table, path)
    return frame.select(VALUE, WHY, F.col("_metadata.file_path").alias(FILE), _place().alias(ORDER))


def record_of(table: Table, fields: StructType) -> Input:
    """An input that has such lines for its records."""
    csv = ROWS if has_rows(table) else table.csv
    return Input(topic="table", key_groups=1, format=table.format, value_schema=fields.json(), csv=csv)


def texts_of(fields: StructType) -> StructType:
    """The same columns, as texts."""
    return StructType([StructField(name, StringType()) for name in fields.names])


def _lines(session: SparkSession, table: Table, path: str) -> DataFrame:
    lines = session.read.text(path)
    if table.format == "csv" and table.csv.encoding != "UTF-8":
        lines = lines.withColumn(VALUE, F.decode(F.col(VALUE).cast("binary"), table.csv.encoding))
    return lines.withColumn(WHY, F.lit(None).cast("string"))


def _rows(session: SparkSession, table: Table, path: str, fields: StructType) -> DataFrame:
    header = {"header": str(table.header).lower(), "mode": "PERMISSIVE", "columnNameOfCorruptRecord": _UNFIT}
    texts = texts_of(fields).add(_UNFIT, StringType())
    rows = session.read.format("csv").options(**options_of(table.csv), **header).schema(texts).load(path)
    written = F.to_csv(F.struct(*(_column(name) for name in fields.names)), _WRITTEN)
    value = F.coalesce(_column(_UNFIT), written)
    no_text = f"CASE WHEN instr({VALUE}, {text_of(_NO_CHARACTER)}) > 0 THEN {text_of(_not_in(table))} END"
    why = F.when(_column(_UNFIT).isNotNull(), no_fit(fields)).otherwise(F.expr(no_text))
    return rows.withColumn(VALUE, value).withColumn(WHY, why)


def _column(name: str) -> Column:
    return F.col("`" + name.replace("`", "``") + "`")


def _not_in(table: Table) -> str:
    return f"it has bytes that are not {table.csv.encoding}"


def _place() -> Column:
    """An order of the lines of one file."""
    return F.array("_metadata.file_block_start", F.monotonically_increasing_id())
