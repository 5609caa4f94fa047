"""One runtime for all tests of redistribution that need no process of their own."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from penstock.local.kafka import EmbeddedKafka
from penstock.spark.task import Runtime
from tests.support.spark.redistribution import runtime_in, settings_below


@pytest.fixture(scope="package")
def runtime(spark: SparkSession, kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Runtime:
    return runtime_in(spark, settings_below(tmp_path_factory.mktemp("redistribute"), kafka.bootstrap))
