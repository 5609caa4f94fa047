"""The gateway to a JVM."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


def test_a_class_is_asked_for_once_and_packages_are_told_from_classes(spark: SparkSession) -> None:
    """A second question would give another object."""
    jvm: Any = spark.newSession()._jvm
    assert jvm.org.apache.spark.sql.Column is jvm.org.apache.spark.sql.Column
    assert jvm.org.apache is jvm.org.apache
    assert jvm.java.lang.Math.max(2, 3) == 3
    assert jvm.SparkConf is jvm.SparkConf
