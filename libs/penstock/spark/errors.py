"""Converts exceptions of Python, pyspark and the JVM to failures."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException

from penstock.spark.failures import Cause, Failure, classify

_MOST_CAUSES = 20


def failure_of(error: BaseException) -> Failure:
    """What an exception of a command means for its task."""
    return classify(causes_of(error))


def causes_of(error: BaseException) -> list[Cause]:
    """The chain of an exception, outermost first, from Python into the JVM."""
    causes: list[Cause] = []
    current: BaseException | None = error
    while current is not None and len(causes) < _MOST_CAUSES:
        causes.append(Cause(type(current).__name__, str(current)))
        causes += _java_causes(current)
        current = current.__cause__
    return causes


def _java_causes(error: BaseException) -> list[Cause]:
    match error:
        case Py4JJavaError():
            throwable = error.java_exception
        case CapturedException():
            throwable = error._origin
        case _:
            return []
    return _throwables(throwable)


def _throwables(throwable: Any) -> list[Cause]:
    causes: list[Cause] = []
    while throwable is not None and len(causes) < _MOST_CAUSES:
        causes.append(Cause(throwable.getClass().getName(), str(throwable.getMessage())))
        throwable = throwable.getCause()
    return causes
