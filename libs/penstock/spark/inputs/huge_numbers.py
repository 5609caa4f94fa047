"""Numbers that Spark must not get: of `1e9999999` in the place of a DECIMAL it makes all digits, for minutes, before it
finds that no DECIMAL has so many. A task would do that in each try, and time out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.classic.column import Column as JvmColumn
from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StringType, StructField, StructType

from penstock.spark.columns import java_of
from penstock.spark.inputs.misread import TEXT, Parser, name_of, text_of, texts

TOLD = "a number in the place of a DECIMAL has 1,000 digits or more"
# The limit is far above the 38 digits of a DECIMAL.
_HUGE = r"[0-9.][eE][-+]?0*[1-9][0-9]{3}|[0-9.]{1000}"


def has_huge_number(session: SparkSession, fields: StructType, parser: Parser) -> Column:
    """Whether a record has such a number; never null. `parser`: what would read it."""
    decimals = [field.name for field in fields.fields if _has_decimal(field.dataType)]
    if not decimals:
        return F.lit(False)
    found = _in_line(fields, decimals, parser) if parser.function == "from_csv" else _in_json(session, fields)
    # `when`, for Spark may evaluate both sides of AND.
    return F.when(F.expr(f"{TEXT} RLIKE {text_of(_HUGE)}"), F.coalesce(found, F.lit(False))).otherwise(False)


def without_decimals(schema: StructType, parsed: Callable[[StructType], Column]) -> Column:
    """The row of a record with such a number: null for each column with a DECIMAL. `schema`: its last column is for the
    text of a record that is malformed. `parsed`: what Spark makes of the text by a schema."""
    *fields, corrupt = schema.fields
    as_text = [StructField(field.name, StringType()) if _has_decimal(field.dataType) else field for field in fields]

    def row(found: Column) -> Column:
        values = [F.lit(None) if _has_decimal(field.dataType) else found.getField(field.name) for field in fields]
        named = [value.cast(field.dataType).alias(field.name) for value, field in zip(values, fields, strict=True)]
        return F.struct(*named, F.expr(TEXT).alias(corrupt.name))

    return F.transform(F.array(parsed(StructType([*as_text, corrupt]))), row).getItem(0)


def _in_line(fields: StructType, decimals: list[str], parser: Parser) -> Column:
    strings = StructType([StructField(field.name, StringType()) for field in fields.fields])
    huge = " OR ".join(f"coalesce(texts.{name_of(name)} RLIKE {text_of(_HUGE)}, false)" for name in decimals)
    return F.expr(f"exists({texts(strings, parser)}, texts -> {huge})")


def _in_json(session: SparkSession, fields: StructType) -> Column:
    """By Java: Spark's parser makes `Infinity` of the text of such a number."""
    jvm: Any = session._jvm
    return JvmColumn(jvm.io.penstock.sources.HugeNumbers.areIn(java_of(F.col("value")), fields.json(), _HUGE))


def _has_decimal(kind: DataType) -> bool:
    match kind:
        case StructType():
            return any(_has_decimal(field.dataType) for field in kind.fields)
        case ArrayType():
            return _has_decimal(kind.elementType)
        case MapType():
            return _has_decimal(kind.valueType)
    return isinstance(kind, DecimalType)
