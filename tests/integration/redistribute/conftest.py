"""What tests of redistribution that need no process of their own share: one runtime, and a topic for each test."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

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
