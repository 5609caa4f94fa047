"""What the cell's schema registry says of the inputs whose records name their schemas."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import SparkSession

from penstock.config.model import Input, JobConfig
from penstock.config.problems import Problem
from penstock.control.errors import Unavailable
from penstock.kafka.registry import Registry, Schema, subject_of
from penstock.spark.inputs.avro import avro_misfit
from penstock.spark.inputs.protobuf_writers import protobuf_misfit
from penstock.spark.inputs.registry import NO_REGISTRY
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
            yield from _registry_problem(session, f"inputs.{name}", source, settings.kafka.registry)


def _registry_problem(session: SparkSession, field: str, source: Input, registry: Registry | None) -> Iterator[Problem]:
    switch = f"{field}.schema_registry"
    if registry is None:
        yield Problem(switch, "schema_registry_set", f"{switch}: {NO_REGISTRY}")
        return
    subject = subject_of(source.topic)
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
