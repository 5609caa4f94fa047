"""The plan by which a task reads its inputs."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from penstock.config.model import Input, JobConfig
from penstock.spark.inputs.malformed import MalformedRecords
from tests.support.config.jobs import job


@pytest.mark.parametrize(("name", "function"), [("json", "from_json"), ("csv", "from_csv")])
def test_a_record_is_decoded_once(spark: SparkSession, name: str, function: str) -> None:
    """Spark would push the filter for malformed records below the decoding, and decode there, too."""
    records = spark.range(3).select(
        F.col("id").cast("string").cast("binary").alias("value"), F.col("id").alias("offset"), F.lit(0)
    )
    records = records.toDF("value", "offset", "partition")
    malformed = MalformedRecords(spark, "j", JobConfig.model_validate(job()), {})
    source = Input(topic="t", key_groups=1, format=name, value_schema="a INT, b STRING")  # type: ignore[arg-type]
    plan = malformed.rows("events", source, records).where("a > 1")._jdf.queryExecution().optimizedPlan().toString()
    assert plan.count(f"{function}(") == 1
