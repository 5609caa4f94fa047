"""The gateway to a JVM."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from py4j.protocol import INPUT_CONVERTER
from pyspark.sql import SparkSession
from pyspark.sql.types import NumpyArrayConverter, NumpyScalarConverter

from penstock.spark.gateway import convert_numpy_lazily


def test_a_class_is_asked_for_once_and_packages_are_told_from_classes(spark: SparkSession) -> None:
    """A second question would give another object."""
    jvm: Any = spark.newSession()._jvm
    assert jvm.org.apache.spark.sql.Column is jvm.org.apache.spark.sql.Column
    assert jvm.org.apache is jvm.org.apache
    assert jvm.java.lang.Math.max(2, 3) == 3
    assert jvm.SparkConf is jvm.SparkConf


def test_only_values_of_numpy_are_shown_to_its_converters(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """1. Each question to a converter is noted. 2. Other arguments cause none. 3. Those of numpy are converted."""
    asked: list[object] = []
    for kind in (NumpyScalarConverter, NumpyArrayConverter):
        original = kind.can_convert
        monkeypatch.setattr(
            kind, "can_convert", lambda self, value, is_its=original: asked.append(value) or is_its(self, value)
        )
    before = list(INPUT_CONVERTER)
    convert_numpy_lazily()
    jvm: Any = spark._jvm
    try:
        assert jvm.java.lang.Integer.parseInt("12") == 12
        assert jvm.java.util.ArrayList([1, 2]).size() == 2
        assert asked == []
        assert jvm.java.lang.Math.max(np.int64(2), np.int32(3)) == 3
        assert list(jvm.java.util.Arrays.copyOf(np.array([1, 2, 3]), 2)) == [1, 2]
        assert len(asked) >= 3
    finally:
        INPUT_CONVERTER[:] = before
