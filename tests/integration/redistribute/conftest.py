"""What tests of redistribution that need no process of their own share: one runtime, and a topic for each test."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.kafka.clusters import clusters_of
from penstock.local.kafka import EmbeddedKafka
from penstock.spark.task import Runtime
from tests.support.spark.hosts import make_topic
from tests.support.spark.redistribution import KEY_GROUPS, Events, Keys, runtime_in, settings_below


@pytest.fixture(scope="package")
def runtime(spark: SparkSession, kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Runtime:
    return runtime_in(spark, settings_below(tmp_path_factory.mktemp("redistribute"), kafka.bootstrap))


@pytest.fixture(scope="module")
def keys(runtime: Runtime) -> Keys:
    return Keys(runtime.spark, "spark")


@pytest.fixture
def events(kafka: EmbeddedKafka, keys: Keys) -> Events:
    return Events(kafka.bootstrap, make_topic(kafka.bootstrap, KEY_GROUPS), keys)


@pytest.fixture(scope="package")
def eu(servers_dir: Path) -> Iterator[EmbeddedKafka]:
    """A second broker."""
    with EmbeddedKafka(servers_dir / "eu") as server:
        yield server


@pytest.fixture(scope="package")
def both(runtime: Runtime, eu: EmbeddedKafka) -> Runtime:
    """A host that knows the cluster `eu` beside its own."""
    clusters = clusters_of({"eu": {"bootstrap": eu.bootstrap}})
    return replace(runtime, settings=runtime.settings.model_copy(update={"kafka_clusters": clusters}))
