"""Avro by the Java class that decodes it, bare or after the frame of a schema registry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.classic.column import Column as JvmColumn

from penstock.config.model import Input, JobConfig
from penstock.config.problems import Problem
from penstock.config.topics import topic_and_cluster
from penstock.control.errors import BrokenTask, Unavailable
from penstock.kafka.access import Brokers, kafka_at
from penstock.kafka.registry import Registry, subject_of
from penstock.spark.columns import java_of
from penstock.spark.inputs.topic_checks import some_of, topics_of
from penstock.spark.settings import SparkSettings

_NO_REGISTRY = "the containers have no schema registry: set PENSTOCK_SCHEMA_REGISTRY_URL for the Task Managers"


class Avro(NamedTuple):
    """What decodes the values of an input; all its columns agree about a record of one batch.

    `java`: its `io.penstock.sources.AvroDecoder`.
    """

    java: Any

    def decoded(self) -> Column:
        """The value as a struct; null where it is malformed."""
        return JvmColumn(self.java.decoded(java_of(F.col("value"))))

    def reasons(self) -> Column:
        """Why the value is malformed, in words."""
        return JvmColumn(self.java.reasons(java_of(F.col("value"))))


def avro_decoder(session: SparkSession, source: Input, brokers: Brokers) -> Avro:
    """The decoder of an input of Avro. Raises BrokenTask for a schema that gives no columns, or without a registry."""
    jvm: Any = session._jvm
    decoder = jvm.io.penstock.sources.AvroDecoder(source.value_schema, _java_registry(session, source, brokers))
    try:
        kind = decoder.dataType().typeName()
    except Py4JJavaError as error:
        raise BrokenTask(f"value_schema: {error.java_exception.getMessage()}") from error
    if kind != "struct":
        raise BrokenTask(f"value_schema: the Avro schema must be of a record with the columns as fields, not {kind}")
    return Avro(decoder)


def required_registry(brokers: Brokers, field: str) -> Registry:
    """The cell's registry. Raises BrokenTask when the containers have none."""
    registry = kafka_at(brokers).registry
    if registry is None:
        raise BrokenTask(f"{field}: {_NO_REGISTRY}", rule="schema_registry_set")
    return registry


def schemas_as_the_registry_has_them(
    session: SparkSession, config: JobConfig, settings: SparkSettings
) -> Iterator[Problem]:
    """What the registry says of inputs whose records name their schemas.

    Rules: `schema_registry_set`; `subject_exists`, which a caller may leave out when the topic is written later;
    `schema_reads_subject`. Raises Unavailable when the registry gives no answer.
    """
    for name, source in config.inputs.items():
        if source.schema_registry and source.format == "avro":
            field, registry = f"inputs.{name}", settings.kafka.registry
            if registry is None:
                switch = f"{field}.schema_registry"
                yield Problem(switch, "schema_registry_set", f"{switch}: {_NO_REGISTRY}")
                continue
            for topic in _topics(source, settings):
                yield from _registry_problem(session, field, source, subject_of(topic), registry)


def _topics(source: Input, settings: SparkSettings) -> list[str]:
    """The names of the topic; of a pattern those of some that there are."""
    if source.topic is not None:
        return [source.topic]
    found = sorted(topics_of([source], settings.cluster))
    return [topic_and_cluster(name)[0] for name in some_of(found)]


def _registry_problem(
    session: SparkSession, field: str, source: Input, subject: str, registry: Registry
) -> Iterator[Problem]:
    switch = f"{field}.schema_registry"
    try:
        newest = registry.newest(subject)
    except Unavailable as error:
        raise Unavailable(f"{switch}: {error.detail}") from error
    if newest is None:
        told = f"{switch}: the schema registry {registry.url} has no subject {subject}"
        yield Problem(switch, "subject_exists", told)
        return
    misfit = _misfit(session, str(source.value_schema), newest)
    if misfit is not None:
        told = f"{field}.value_schema cannot read the newest schema of the subject {subject}: {misfit}"
        yield Problem(f"{field}.value_schema", "schema_reads_subject", told)


def _misfit(session: SparkSession, reader: str, writer: str) -> str | None:
    jvm: Any = session._jvm
    try:
        misfit = jvm.io.penstock.sources.AvroEncoder.misfit(reader, writer)
    except Py4JJavaError as error:
        return str(error.java_exception.getMessage())
    return None if misfit is None else str(misfit)


def _java_registry(session: SparkSession, source: Input, brokers: Brokers) -> Any:
    if not source.schema_registry:
        return None
    registry = required_registry(brokers, "schema_registry")
    master = session.sparkContext.master or ""
    if not master.startswith("local"):
        raise BrokenTask(
            f"schema_registry: executors on other machines ({master}) do not agree about what the "
            "registry knows: use a host with the master local",
            rule="schema_registry_local",
        )
    jvm: Any = session._jvm
    return jvm.io.penstock.sources.Registry(registry.url, registry.username, registry.password)
