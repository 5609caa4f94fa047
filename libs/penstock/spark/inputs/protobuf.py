"""Protobuf by the Java class that decodes it, bare or after the frame of a schema registry."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from penstock.config.model import Input
from penstock.control.errors import BrokenTask
from penstock.kafka.access import Brokers
from penstock.spark.inputs.decoder import Decoder
from penstock.spark.inputs.registry import java_registry


def protobuf_decoder(session: SparkSession, source: Input, brokers: Brokers) -> Decoder:
    """The decoder of an input of Protobuf. Raises BrokenTask for a message that gives no columns, or without a
    registry."""
    options = source.protobuf
    if options.message is None:
        raise BrokenTask("protobuf.message: an input of format protobuf needs the name of its message")
    jvm: Any = session._jvm
    registry = java_registry(session, source, brokers)
    java = jvm.io.penstock.sources.protobuf.ProtobufDecoder(
        source.value_schema, options.message, options.emit_default_values, registry
    )
    decoder = Decoder(java)
    decoder.kind()
    return decoder
