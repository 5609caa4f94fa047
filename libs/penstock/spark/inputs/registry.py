"""Inputs whose records name their writers' schemas in the cell's schema registry."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from penstock.config.model import Input
from penstock.control.errors import BrokenTask
from penstock.kafka.access import Brokers, kafka_at
from penstock.kafka.registry import Registry

NO_REGISTRY = "the containers have no schema registry: set PENSTOCK_SCHEMA_REGISTRY_URL for the Task Managers"


def required_registry(brokers: Brokers, field: str) -> Registry:
    """The cell's registry. Raises BrokenTask when the containers have none."""
    registry = kafka_at(brokers).registry
    if registry is None:
        raise BrokenTask(f"{field}: {NO_REGISTRY}", rule="schema_registry_set")
    return registry


def java_registry(session: SparkSession, source: Input, brokers: Brokers) -> Any:
    """The registry for a decoder; None where the records of the input are bare.

    Raises BrokenTask when the containers have none, or executors are on other machines.
    """
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
