"""The headers of Kafka records, out of one column of the query's result.

The column is an array of headers, as inputs have them with `metadata_columns`, or a map from names to values.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StringType, StructType

from penstock.config.model import KafkaOutput
from penstock.control.errors import BrokenTask
from penstock.spark.sinks.context import column, require_columns

_TYPE = "array<struct<key:string,value:binary>>"


def without_headers(frame: DataFrame, output: KafkaOutput) -> DataFrame:
    """The columns of the value."""
    return frame if output.headers is None else frame.drop(column(output.headers))


def require_headers(frame: DataFrame, name: str) -> None:
    """Raises BrokenTask when there is no such column, it is none of headers, or there is no other column."""
    require_columns(frame, [name], "output.headers")
    kind = frame.schema[name].dataType
    if not _is_map(kind) and not _is_array(kind):
        raise BrokenTask(
            f"output.headers: the column {name} is {kind.simpleString()}; headers are "
            "array<struct<key:string,value:binary>> or map<string,binary>, where values may be string",
            rule="headers_type",
        )
    if len(frame.columns) == 1:
        raise BrokenTask(f"output.headers: the rows have no column but {name} for the value", rule="value_columns")


def headers_of(frame: DataFrame, name: str) -> Column:
    """The headers of a record as Kafka's sinks take them. After `require_headers`."""
    headers = column(name)
    if isinstance(frame.schema[name].dataType, MapType):
        return F.map_entries(headers).cast(_TYPE)
    return F.transform(headers, lambda each: F.struct(each["key"], each["value"])).cast(_TYPE)


def _is_map(kind: DataType) -> bool:
    return isinstance(kind, MapType) and isinstance(kind.keyType, StringType) and _is_content(kind.valueType)


def _is_array(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = {field.name: field.dataType for field in kind.elementType.fields}
    return fields.keys() == {"key", "value"} and isinstance(fields["key"], StringType) and _is_content(fields["value"])


def _is_content(kind: DataType) -> bool:
    return isinstance(kind, StringType | BinaryType)
