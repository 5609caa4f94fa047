"""Avro by the Java class that decodes it, bare or after the frame of a schema registry."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from penstock.config.model import Input
from penstock.control.errors import BrokenTask
from penstock.kafka.access import Brokers
from penstock.kafka.registry import Schema
from penstock.spark.inputs.decoder import Decoder
from penstock.spark.inputs.registry import java_registry


def avro_decoder(session: SparkSession, source: Input, brokers: Brokers) -> Decoder:
    """The decoder of an input of Avro. Raises BrokenTask for a schema that gives no columns, or without a registry."""
    jvm: Any = session._jvm
    java = jvm.io.penstock.sources.AvroDecoder(source.value_schema, java_registry(session, source, brokers))
    decoder = Decoder(java)
    kind = decoder.kind()
    if kind != "struct":
        raise BrokenTask(f"value_schema: the Avro schema must be of a record with the columns as fields, not {kind}")
    return decoder


def avro_misfit(session: SparkSession, source: Input, newest: Schema) -> str | None:
    """Why the input cannot read data of the newest schema of its subject; None if it can."""
    jvm: Any = session._jvm
    try:
        misfit = jvm.io.penstock.sources.AvroEncoder.misfit(source.value_schema, newest.text)
    except Py4JJavaError as error:
        return str(error.java_exception.getMessage())
    return None if misfit is None else str(misfit)
