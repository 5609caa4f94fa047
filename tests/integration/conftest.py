"""The Spark session that integration tests share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.spark.session import local_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session in this process, for tests of what runs inside a session; hosts make their own."""
    with (
        tempfile.TemporaryDirectory(prefix="penstock-spark-", ignore_cleanup_errors=True) as folder,
        local_session(Path(folder)) as session,
    ):
        yield session
