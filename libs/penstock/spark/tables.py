"""The tables of a job, which its query reads beside the inputs: static frames, whose files are checked first.
`table_versions` has those of a task that refresh.

A line of CSV or JSON is malformed as a record of an input is (`inputs.malformed`). Spark's own reader would make nulls
of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_
from typing import Literal

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from penstock.config.model import Input, Table
from penstock.config.paths import PLACEHOLDER, Argument, with_arguments
from penstock.config.stream import Stream
from penstock.control.errors import BrokenTask
from penstock.spark.csv_options import lines_of, options_of, record_options
from penstock.spark.failures import reason_of
from penstock.spark.inputs.huge_numbers import TOLD
from penstock.spark.inputs.malformed import DECODED, decoded, is_whole, reason_of_text
from penstock.spark.paths import require_allowed, require_files_allowed
from penstock.spark.table_lines import FILE, ORDER, WHY, has_rows, placed_lines, record_of, texts_of

_TEXTS, _HEADER, _REASON = "texts", "header", "reason"
_HEADER_SAID = "CSV header"
# Where Spark finds the columns itself, it adds this one for what it cannot read.
_UNREAD = "_corrupt_record"
_LONGEST_TEXT = 200
Mode = Literal["FAILFAST", "PERMISSIVE"]


def read_table(
    session: SparkSession, name: str, table: Table, args: Mapping[str, Argument], roots: Sequence[str]
) -> DataFrame:
    """A static frame of the table `name`.

    Raises BrokenTask for a path below none of the roots of the cell, before anything is read; and for a file of CSV or
    JSON with another header, or with a malformed line, unless the table takes nulls for it.
    """
    field, path = f"tables.{name}.path", substitute(table.path, args)
    require_allowed(field, path, roots)
    frame = _frame(session, table, path, table.table_schema, "PERMISSIVE")
    require_files_allowed(field, frame, roots)
    if table.format not in ("csv", "json"):
        return frame
    fields = _fields(session, path, frame)
    if table.format == "csv" and table.header:
        _require_header(name, _frame(session, table, path, texts_of(fields), "PERMISSIVE"))
    if table.malformed == "null":
        return frame
    lines = placed_lines(session, table, path, fields)
    line = _first_malformed(session, table, lines, fields)
    if line is not None:
        hint = f'Mend the file, or set tables.{name}.malformed to the text "null"'
        raise BrokenTask(f"{field}: {_told(table, lines, line, fields)}. {hint}", rule="malformed_table")
    # What comes into the files later fails the batch that reads it.
    return _frame(session, table, path, frame.schema, "FAILFAST")


def substitute(text: str, args: Mapping[str, Argument]) -> str:
    """`text` with each `${name}` replaced by that argument. Raises BrokenTask for a name that is not among `args`."""

    for name in PLACEHOLDER.findall(text):
        if name not in args:
            raise BrokenTask(f"${{{name}}}: the job has no argument of this name; it has {sorted(args)}")
    return with_arguments(text, args)


def _frame(session: SparkSession, table: Table, path: str, schema: str | StructType | None, mode: Mode) -> DataFrame:
    reader = session.read.format(table.format).options(**reader_options(table, mode))
    if table.format == "csv":
        reader = reader.option("inferSchema", schema is None)
    return (reader if schema is None else reader.schema(schema)).load(path)


def reader_options(source: Table | Stream, mode: Mode) -> dict[str, str]:
    """Spark's options for files whose columns are known."""
    options: dict[str, str] = {"mode": mode} if source.format in ("csv", "json") else {}
    if source.format == "csv":
        # Spark else takes the columns of a schema by place, whatever the header line says.
        options |= {"header": str(source.header).lower(), "enforceSchema": "false", **options_of(source.csv)}
    return options


def mode_of(source: Table | Stream) -> Mode:
    """What Spark's reader does with a malformed line."""
    return "PERMISSIVE" if source.malformed == "null" else "FAILFAST"


def _fields(session: SparkSession, path: str, frame: DataFrame) -> StructType:
    """The columns that the files have: others have their names and values from folders, or from Spark."""
    of_others = {*session.read.text(path).columns[1:], _UNREAD}
    return StructType([field for field in frame.schema.fields if field.name not in of_others])


def _require_header(name: str, frame: DataFrame) -> None:
    """Raises BrokenTask when the first line of a file names other columns, or in another order. Spark looks at it where
    all are read."""
    try:
        frame.write.format("noop").mode("overwrite").save()
    except (PySparkException, Py4JJavaError) as error:
        said = reason_of(error)
        if _HEADER_SAID not in said:
            raise
        same = "The file and table_schema must name the same columns in the same order"
        mend = "Put table_schema in the order of the file"
        hint = f"{same}. {mend}. Only if the first line is a row, set tables.{name}.header to false"
        raise BrokenTask(f"tables.{name}.header: {said}. {hint}", rule="csv_header") from error


def _first_malformed(session: SparkSession, table: Table, lines: DataFrame, fields: StructType) -> Row | None:
    """A malformed line: its place, its text, the text of each column, what Spark reads in each, and a reason."""
    source = record_of(table, fields)
    found = (lines if has_rows(table) else lines.where(lines_of(table.csv))).withColumn(_TEXTS, _texts(source, fields))
    if table.format == "csv" and table.header and not has_rows(table):
        found = found.withColumn(_HEADER, _is_header(source, fields))
    found = found.withColumn("value", F.col("value").cast("binary")).withColumn(DECODED, decoded(session, source))
    found = found.where(F.col(WHY).isNotNull() | ~is_whole(session, source))
    told = found.withColumn(_REASON, F.coalesce(WHY, reason_of_text(session, source)))
    return _first_but_headers(told) if _HEADER in told.columns else told.first()


def _first_but_headers(malformed: DataFrame) -> Row | None:
    """Spark leaves out one header line of each file, the first line. Another one it reads as a row."""
    group = malformed.groupBy(FILE, _HEADER).count().where(~F.col(_HEADER) | (F.col("count") > 1)).first()
    if group is None:
        return None
    of_group = malformed.where((F.col(FILE) == group[FILE]) & (F.col(_HEADER) == group[_HEADER]))
    rows = of_group.orderBy(ORDER).take(2 if group[_HEADER] else 1)
    return rows[-1] if rows else None


def _texts(source: Input, fields: StructType) -> Column:
    texts = texts_of(fields)
    if source.format == "json":
        return F.from_json("value", texts)
    return F.from_csv("value", texts.json(), record_options(source.csv))


def _is_header(source: Input, fields: StructType) -> Column:
    """Whether a line has the words of the header, which Spark has compared with the columns. None of them is null."""
    words = _texts(source.model_copy(update={"csv": source.csv.model_copy(update={"null_value": ""})}), fields)
    return reduce(and_, [F.lower(words[name]).eqNullSafe(name.lower()) for name in fields.names])


def _told(table: Table, lines: DataFrame, line: Row, fields: StructType) -> str:
    """Where a malformed line is, and why it is: the first column that Spark makes null of, its text and its type."""
    text = bytes(line["value"]).decode(errors="replace")
    where = f"{line[FILE]}, {'row' if has_rows(table) else 'line'} {_number(lines, line)}"
    texts, values = ({} if part is None else part.asDict() for part in (line[_TEXTS], line[DECODED]))
    is_by_field = line[WHY] is None and line[_REASON] != TOLD
    for field in fields.fields if is_by_field else ():
        if texts.get(field.name) is not None and values.get(field.name) is None:
            return f"{where}: {field.name} is {_quoted(texts[field.name])}, no {field.dataType.simpleString().upper()}"
    return f"{where}: {line[_REASON]}: {_quoted(text)}"


def _quoted(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}...")


def _number(lines: DataFrame, line: Row) -> int:
    """The number of a line in its file. The lines before it are counted, as a file may be too large for one text."""
    return lines.where((F.col(FILE) == line[FILE]) & (F.col(ORDER) < F.lit(line[ORDER]))).count() + 1
