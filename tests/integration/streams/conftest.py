"""What tests of streams share: a runtime that has no Kafka, and a database for results."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from penstock.spark.task import Runtime
from tests.support.spark.redistribution import runtime_in, settings_below
from tests.support.spark.streams import NO_KAFKA
from tests.support.store.database import fresh_database


@pytest.fixture(scope="package")
def runtime(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> Iterator[Runtime]:
    folder = tmp_path_factory.mktemp("streams")
    with fresh_database(postgres_url) as url:
        yield runtime_in(spark, settings_below(folder, NO_KAFKA, connections={"default": url}))
