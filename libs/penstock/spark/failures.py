"""Why a task failed, in the three kinds a Task Manager acts upon, told from exceptions of Python, pyspark and the JVM.

fenced        a newer owner exists: stop the task here
broken_task   a retry cannot help: the query, its data or a topic must change
retryable     everything else
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException

ErrorKind = Literal["fenced", "broken_task", "retryable"]
_MOST_CAUSES = 20
# The last is of the files sink (`ManifestFileCommitProtocol`): another owner has written the batch meanwhile.
_FENCED_MARKS = ("FENCED: ", "CONCURRENT_STREAM_LOG_UPDATE", "Race while writing batch")
_FENCED_TYPES = {"ProducerFencedException", "InvalidProducerEpochException", "Fenced"}
_BROKEN_TYPES = {
    "AnalysisException",
    "BrokenCheckpoint",
    "BrokenSinkException",
    "BrokenTask",
    "ExtendedAnalysisException",
    "KafkaIllegalStateException",
    "MalformedRecordException",
    "ParseException",
    "SparkArithmeticException",
    "SparkArrayIndexOutOfBoundsException",
    "SparkDateTimeException",
    "SparkNumberFormatException",
    "SparkUnsupportedOperationException",
    "StateSchemaIncompatible",
    "StateStoreBackendNotSupportedForTWSException",
    "UnknownTopicOrPartitionException",
    "UnmovableStateException",
}
# An error that a sink raised in `foreachBatch` arrives as text: the Python traceback inside a Java exception.
_RAISED_IN_BATCH = re.compile(r"^penstock\.control\.errors\.(\w+): ", re.MULTILINE)
_MEMORY_MARK = "OutOfMemoryError"
_LONGEST_ERROR = 2000
# What Spark appends to its messages: the plan, the text of the query, the stack of the JVM.
_APPENDIX = re.compile(r"(?<=SQLSTATE: \w{5})(; line \d+ pos \d+| ?\(line \d+, pos \d+\))?;?\s*\n.*", re.DOTALL)
_STACK = re.compile(r"\n\s*at [\w.$]+\(.*", re.DOTALL)


class Cause(NamedTuple):
    """An exception of a chain: its class, with or without package, and its message."""

    type: str
    message: str

    @property
    def name(self) -> str:
        """The class without its package."""
        return re.split(r"[.$]", self.type)[-1]


@dataclass(frozen=True)
class Failure:
    """A failed task, ready to be reported."""

    error: str
    error_kind: ErrorKind
    out_of_memory: bool = False


def failure_of(error: BaseException) -> Failure:
    """What an exception of a command means for its task, by the chain of its causes, from Python into the JVM."""
    causes: list[Cause] = []
    current: BaseException | None = error
    while current is not None and len(causes) < _MOST_CAUSES:
        causes.append(Cause(type(current).__name__, str(current)))
        causes += _java_causes(current)
        current = current.__cause__
    return classify(causes)


def _java_causes(error: BaseException) -> list[Cause]:
    throwable: Any = None
    if isinstance(error, Py4JJavaError):
        throwable = error.java_exception
    elif isinstance(error, CapturedException):
        throwable = error._origin
    causes: list[Cause] = []
    while throwable is not None and len(causes) < _MOST_CAUSES:
        causes.append(Cause(throwable.getClass().getName(), str(throwable.getMessage())))
        throwable = throwable.getCause()
    return causes


def classify(causes: Sequence[Cause]) -> Failure:
    """Classifies a chain of at least one exception, outermost first. Pure."""
    return Failure(_text(causes), _kind(causes), any(_MEMORY_MARK in f"{c.type} {c.message}" for c in causes))


def _kind(causes: Sequence[Cause]) -> ErrorKind:
    names = {name for cause in causes for name in (cause.name, *_RAISED_IN_BATCH.findall(cause.message))}
    if names & _FENCED_TYPES or any(mark in cause.message for cause in causes for mark in _FENCED_MARKS):
        return "fenced"
    return "broken_task" if names & _BROKEN_TYPES else "retryable"


def _text(causes: Sequence[Cause]) -> str:
    """The outermost message, and the innermost if it differs. Java stacks are only in the log."""
    outer, inner = _plain(causes[0].message), _plain(causes[-1].message)
    text = outer if inner in outer else f"{outer}: {causes[-1].name}: {inner}"
    return text[:_LONGEST_ERROR]


def _plain(message: str) -> str:
    return _STACK.sub("", _APPENDIX.sub(r"\1", message)).strip()
