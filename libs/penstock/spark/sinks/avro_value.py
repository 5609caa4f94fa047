"""Rows as Avro records, with the frame of a schema registry where the output asks for it.

The schema is the query's: a record with the columns as fields, by Spark's own conversion. Fields that may be null are
unions of null first, with the default null, so that a column can come or go without breaking readers.
"""

from __future__ import annotations

import json
import re
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import Column, DataFrame
from pyspark.sql.classic.column import Column as JvmColumn

from penstock.config.model import KafkaOutput
from penstock.control.errors import BrokenTask
from penstock.kafka.access import Brokers
from penstock.kafka.registry import Schema
from penstock.spark.columns import java_of
from penstock.spark.sinks.context import row_of
from penstock.spark.sinks.registered import SchemaFile, registered_id


def avro_value(frame: DataFrame, output: KafkaOutput, brokers: Brokers, *, registers: bool) -> Column:
    """The value of a record as Avro.

    `registers`: the schema is registered; otherwise the registry is only asked whether it would take it. Raises
    BrokenTask when a column is none of Avro, the registry takes no such schema, or the cell has no registry;
    Unavailable when the registry gives no answer.
    """
    session = frame.sparkSession
    jvm: Any = session._jvm
    kind = session._jsparkSession.parseDataType(frame.schema.json())
    schema = _schema(jvm, kind, output.topic)
    number = registered_id(output, SchemaFile(output.topic, Schema(schema)), brokers, registers=registers)
    row = java_of(row_of(frame))
    return JvmColumn(jvm.io.penstock.sources.AvroEncoder(kind, schema, number).encoded(row))


def with_null_defaults(schema: Any) -> Any:
    """The JSON of a schema in which each field that may be null is a union of null first, with this default. Pure."""
    if isinstance(schema, list):
        return [with_null_defaults(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: with_null_defaults(value) for name, value in schema.items() if name != "fields"}
    if "fields" in schema:
        found["fields"] = [_with_null_default(field) for field in schema["fields"]]
    return found


def _with_null_default(field: dict[str, Any]) -> dict[str, Any]:
    kind = with_null_defaults(field["type"])
    if not isinstance(kind, list) or "null" not in kind:
        return {**field, "type": kind}
    return {**field, "type": ["null", *(each for each in kind if each != "null")], "default": None}


def record_name(topic: str) -> str:
    """The name of a topic's records in Avro, which has letters, digits and `_` only. Pure."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", topic)
    return name if name[:1].isalpha() or name[:1] == "_" else f"_{name}"


def _schema(jvm: Any, kind: Any, topic: str) -> str:
    try:
        text = jvm.io.penstock.sources.AvroEncoder.schemaOf(kind, record_name(topic))
    except Py4JJavaError as error:
        told = f"output.value_format: the columns of the query do not fit Avro: {error.java_exception.getMessage()}"
        raise BrokenTask(told, rule="columns_of_avro") from error
    return json.dumps(with_null_defaults(json.loads(str(text))))
