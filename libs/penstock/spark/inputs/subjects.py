"""What the cell's schema registry says of the inputs whose records name their schemas."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import SparkSession

from penstock.config.model import Input, JobConfig
from penstock.config.problems import Problem
from penstock.config.topics import topic_and_cluster
from penstock.control.errors import Unavailable
from penstock.kafka.registry import Registry, Schema, subject_of
from penstock.spark.inputs.avro import avro_misfit
from penstock.spark.inputs.protobuf_writers import protobuf_misfit
from penstock.spark.inputs.registry import NO_REGISTRY
from penstock.spark.inputs.topic_checks import some_of, topics_of
from penstock.spark.settings import SparkSettings


def schemas_as_the_registry_has_them(
    session: SparkSession, config: JobConfig, settings: SparkSettings
) -> Iterator[Problem]:
    """What the registry says of the inputs of a job.

    Rules: `schema_registry_set`; `subject_exists`, which a caller may leave out when the topic is written later;
    `schema_reads_subject`. Raises Unavailable when the registry gives no answer.
    """
    for name, source in config.inputs.items():
        if source.schema_registry and source.format in ("avro", "protobuf"):
            field, registry = f"inputs.{name}", settings.kafka.registry
            if registry is None:
                switch = f"{field}.schema_registry"
                yield Problem(switch, "schema_registry_set", f"{switch}: {NO_REGISTRY}")
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
        newest = registry.newest(subject, as_descriptor=source.format == "protobuf")
    except Unavailable as error:
        raise Unavailable(f"{switch}: {error.detail}") from error
    if newest is None:
        told = f"{switch}: the schema registry {registry.url} has no subject {subject}"
        yield Problem(switch, "subject_exists", told)
        return
    misfit = _misfit(session, source, newest)
    if misfit is not None:
        told = f"{field}.value_schema cannot read the newest schema of the subject {subject}: {misfit}"
        yield Problem(f"{field}.value_schema", "schema_reads_subject", told)


def _misfit(session: SparkSession, source: Input, newest: Schema) -> str | None:
    if newest.kind != source.format.upper():
        return f"it is of {newest.kind}"
    return avro_misfit(session, source, newest) if source.format == "avro" else protobuf_misfit(source, newest)
