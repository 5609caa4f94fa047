"""The gateway to a JVM."""

from __future__ import annotations

import socket
from typing import Any

import numpy as np
import pytest
from py4j.protocol import INPUT_CONVERTER
from pyspark import java_gateway
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


class Called:
    """Python that the JVM calls as a `java.lang.Runnable`."""

    class Java:
        implements = ("java.lang.Runnable",)

    def __init__(self) -> None:
        self.times = 0

    def run(self) -> None:
        self.times += 1


def test_only_the_jvm_of_a_gateway_calls_its_python(spark: SparkSession) -> None:
    """1. The JVM calls an object of Python. 2. A stranger who knows its name finds the port, and is not heard."""
    gateway: Any = spark.sparkContext._gateway
    called = Called()
    java_gateway.ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    gateway.jvm.java.lang.Thread(called).run()
    assert called.times == 1
    name = gateway.gateway_property.pool.put(called)
    try:
        with socket.create_connection(("127.0.0.1", gateway._callback_server.get_listening_port()), 5) as stranger:
            stranger.sendall(f"c\n{name}\nrun\ne\n".encode())
            assert _answer(stranger) == b""
    finally:
        del gateway.gateway_property.pool[name]
    assert called.times == 1


def _answer(connection: socket.socket) -> bytes:
    try:
        return connection.recv(100)
    except ConnectionResetError:
        return b""
