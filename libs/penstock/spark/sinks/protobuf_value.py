"""Rows as messages of Protobuf, with the frame of a schema registry where the output asks for it.

The message is the job's, from its descriptor set; each column is the field with its name. A registry takes a file of
Protobuf also as the base64 of its descriptor, as Confluent's client for Python sends it.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException
from pyspark.sql import Column, DataFrame
from pyspark.sql.classic.column import Column as JvmColumn

from penstock.config.descriptor_set import files_for, files_of
from penstock.config.model import KafkaOutput
from penstock.control.errors import BrokenTask
from penstock.kafka.access import Brokers
from penstock.kafka.registry import Schema
from penstock.spark.columns import java_of
from penstock.spark.sinks.context import column, row_of
from penstock.spark.sinks.registered import SchemaFile, registered_id

# What every registry has, as Confluent's clients know it.
_BUILT_IN = ("google/protobuf/", "google/type/", "confluent/")


def protobuf_value(frame: DataFrame, output: KafkaOutput, brokers: Brokers, *, registers: bool) -> Column:
    """The value of a record as a message of Protobuf.

    `registers`: the schema is registered; otherwise the registry is only asked whether it would take it. Raises
    BrokenTask when a column does not fit the message, the registry takes no such schema, or the cell has no registry;
    Unavailable when the registry gives no answer.
    """
    _encoder(frame, output, None)
    *others, own = schema_files(str(output.value_schema), str(output.protobuf.message))
    number = registered_id(output, own, brokers, others, registers=registers)
    return JvmColumn(_encoder(frame, output, number).encoded(java_of(row_of(frame))))


def keys_as_read(frame: DataFrame, output: KafkaOutput) -> list[Column]:
    """The key columns with the values that readers have in their place, such as zero for null.

    Raises BrokenTask for a key that decides the partition, and whose hash is not that of what readers have.
    """
    encoder, is_hashed = _encoder(frame, output, None), output.key_groups is not None
    try:
        found = [encoder.keyAsRead(name, java_of(column(name)), is_hashed) for name in output.key_columns]
    except (IllegalArgumentException, Py4JJavaError) as error:
        raise BrokenTask(f"output.key_columns: {_words(error)}", rule="keys_as_read") from error
    return [JvmColumn(each).alias(name) for each, name in zip(found, output.key_columns, strict=True)]


def schema_files(text: str, message: str) -> tuple[SchemaFile, ...]:
    """The files that a registry needs for a message, each after those that it imports; that of the message is the last
    one. Pure."""
    return tuple(_schema_files(files_for(files_of(text), message)))


def _schema_files(files: Iterable[FileDescriptorProto]) -> Iterator[SchemaFile]:
    for file in files:
        if not file.name.startswith(_BUILT_IN):
            text = base64.b64encode(file.SerializeToString(deterministic=True)).decode()
            imports = tuple(name for name in file.dependency if not name.startswith(_BUILT_IN))
            yield SchemaFile(file.name, Schema(text, "PROTOBUF"), imports)


def _encoder(frame: DataFrame, output: KafkaOutput, number: int | None) -> Any:
    session = frame.sparkSession
    jvm: Any = session._jvm
    kind = session._jsparkSession.parseDataType(frame.schema.json())
    encoder = jvm.io.penstock.sources.protobuf.ProtobufEncoder
    try:
        return encoder(kind, output.value_schema, output.protobuf.message, number)
    except (IllegalArgumentException, Py4JJavaError) as error:
        told = f"output.value_format: the columns of the query do not fit the message: {_words(error)}"
        raise BrokenTask(told, rule="columns_of_protobuf") from error


def _words(error: Exception) -> str:
    return str(error.java_exception.getMessage()) if isinstance(error, Py4JJavaError) else str(error)
