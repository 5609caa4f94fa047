"""What a job may set, against Spark itself: it takes every value that is allowed."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from penstock.config.spark_settings import ALLOWED_VALUES

VALUES = (
    "true", "false", "-1", "0", "1", "5", "16", "1.5", "0.5", "300", "1000", "5000", "1048576", "10mb", "128MB", "1g",
    "uncompressed", "deflate", "snappy", "bzip2", "xz", "zstandard", "zstd", "none", "gzip", "lz4", "lz4_raw", "lzf",
    "EXCEPTION", "CORRECTED", "LEGACY", "LAST_WIN", "INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS", "ANSI", "STRICT",
    "min", "max", "UTC", "GMT", "Z", "Europe/Berlin", "America/Argentina/Salta", "Etc/GMT+5", "+01:00", "-11:30",
)  # fmt: skip
REFUSED = [
    ("spark.sql.ansi.enabled", "yes"),
    ("spark.sql.autoBroadcastJoinThreshold", "ten"),
    ("spark.sql.session.timeZone", "Europe/Berln"),
    ("spark.sql.mapKeyDedupPolicy", "LAST"),
    ("spark.sql.streaming.multipleWatermarkPolicy", "mean"),
    ("spark.sql.parquet.compression.codec", "zip"),
]


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    return spark.newSession()


@pytest.mark.parametrize("setting", ALLOWED_VALUES)
def test_spark_takes_each_value_that_is_allowed(session: SparkSession, setting: str) -> None:
    allowed = [value for value in VALUES if ALLOWED_VALUES[setting].accepts(value)]
    assert allowed
    for value in allowed:
        session.conf.set(setting, value)
        assert session.conf.get(setting) == value


@pytest.mark.parametrize(("setting", "value"), REFUSED)
def test_what_spark_refuses_is_not_allowed(session: SparkSession, setting: str, value: str) -> None:
    assert not ALLOWED_VALUES[setting].accepts(value)
    with pytest.raises(Exception, match=r"(?i)should be|invalid|one of"):
        session.conf.set(setting, value)
