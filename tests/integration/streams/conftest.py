"""What tests of streams share: a runtime that has no Kafka."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from penstock.spark.task import Runtime
from tests.support.spark.redistribution import runtime_in, settings_below
from tests.support.spark.streams import NO_KAFKA


@pytest.fixture(scope="package")
def runtime(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Runtime:
    return runtime_in(spark, settings_below(tmp_path_factory.mktemp("streams"), NO_KAFKA))
