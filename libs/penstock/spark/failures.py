"""Why a task failed, in the three kinds a Task Manager acts upon, told from exceptions of Python, pyspark and the JVM.

fenced        a newer owner exists: stop the task here
broken_task   a retry cannot help: the query, its data or a topic must change
retryable     everything else
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import dropwhile, pairwise, takewhile
from typing import Any, Literal, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException

from penstock.control.texts import clean
from penstock.spark.inputs.identity import CREATE_AGAIN

ErrorKind = Literal["fenced", "broken_task", "retryable"]
_MOST_CAUSES = 20
# The last is of the files sink (`ManifestFileCommitProtocol`): another owner has written the batch meanwhile.
_FENCED_MARKS = ("FENCED: ", "CONCURRENT_STREAM_LOG_UPDATE", "Race while writing batch")
_FENCED_TYPES = {"ProducerFencedException", "InvalidProducerEpochException", "Fenced"}
_BROKEN_TYPES = {
    "AccessControlException",
    "AnalysisException",
    "BrokenCheckpoint",
    "BrokenSinkException",
    "BrokenTask",
    "ExtendedAnalysisException",
    "KafkaIllegalStateException",
    "LostOutputException",
    "MalformedRecordException",
    "ParseException",
    "SparkArithmeticException",
    "SparkArrayIndexOutOfBoundsException",
    "SparkDateTimeException",
    "SparkNumberFormatException",
    "SparkUnsupportedOperationException",
    "StateStoreKeySchemaNotCompatible",
    "StateStoreValueSchemaNotCompatible",
    "StateStoreBackendNotSupportedForTWSException",
    "TopicAuthorizationException",
    "TransactionalIdAuthorizationException",
    "UnknownTopicOrPartitionException",
    "UnmovableStateException",
}
# An error that a sink raised in `foreachBatch` arrives as text: the Python traceback inside a Java exception.
_RAISED_IN_BATCH = re.compile(r"^penstock\.control\.errors\.(\w+): ", re.MULTILINE)
_PROXY_TYPE = "Py4JException"
_END_OF_TRACEBACK = re.compile(
    r"^(penstock\.control\.errors|py4j\.protocol|pyspark\.errors\.exceptions\.captured)\.(\w+): ", re.MULTILINE
)
# The exceptions in a printed Java stack, from the line `: <class>: <message>`, which py4j writes, to the first frame.
_PRINTED = re.compile(
    r"^(?:: |Caused by: )([\w.$]+)(?:: (.*?))?(?=\n\t+(?:at |\.\.\. |Suppressed: )|\nCaused by: |\Z)",
    re.MULTILINE | re.DOTALL,
)
# Errors of Penstock, whose text is complete.
_OWN_TYPES = {"BrokenCheckpoint", "BrokenTask", "Conflict", "Fenced", "LeaseLost", "Unavailable"}
_OWN_CLASSES = "io.penstock."
_MEMORY_MARK = "OutOfMemoryError"
_LONGEST_ERROR = 2000
# What Spark appends to its messages: the plan, the text of the query, the stack of the JVM.
_APPENDIX = re.compile(
    r"\.? ?SQLSTATE: \w{5}(?:; line (\d+) pos (\d+)| ?\(line (\d+), pos (\d+)\))?;?\s*(\n.*)?$", re.DOTALL
)
_STACK = re.compile(r"\n\s*(at [\w.$/]+\(|JVM stacktrace:|Driver stacktrace:).*", re.DOTALL)
_PLAN = re.compile(r"\n\s*(?:[~'!]*(?:\+- |:- )|[~'!]+[A-Z]\w+ |== \w+).*", re.DOTALL)
# What Spark shows of the query where an expression failed at run time.
_FRAGMENT = re.compile(r"== SQL.*?==\n(.+?)\n\s*\^|== DataFrame ==\n(.+?)(?:\n\n|$)", re.DOTALL)
# Spark's advice for a query whose state has another schema than its checkpoint: to read it as what it is not.
_ADVICE = re.compile(
    r"Please check number and type of fields\. (.*?)\. If you want to force running the query .*", re.DOTALL
)
_INSTEAD = (
    r"\1. The state was kept by another query: go back to that query, or create a job with another name for this one"
)
# Words of outer exceptions that say nothing of the reason.
_EMPTY_WORDS = re.compile(
    r"\[STREAM_FAILED\]|Job aborted|An exception was raised by the Python Proxy|An error occurred while calling"
)
# What Spark's Kafka source says where a partition ends before the offsets of the checkpoint.
_SHORTER = re.compile(r"Partition (\S+)-(\d+) offset was changed from (\d+) to (\d+)")
# What Spark says of a file that it reads for a stream or a table, and of a line there.
_FILE = re.compile(r"\[FAILED_READ_FILE[.\w]*\] Encountered error while reading file (.+?)\.(?=\s|$)")
_LINE = re.compile(r"\[MALFORMED_RECORD[.\w]*\] Malformed records are detected in record parsing: (.*?)\.?(?=\n|$)")
TRACEBACK = "Traceback (most recent call last):"
_FRAME = re.compile(r'  File "([^"]+)", line (\d+), in (.+)')
_LIBRARY = re.compile(r"/(?:pyspark|py4j|site-packages|lib/python[\d.]+|penstock/spark)(?:\.zip)?/|^<")
_MOST_FRAMES = 10


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
    causes = _with_causes_in_text(causes)
    return Failure(clean(_text(causes)), _kind(causes), any(_MEMORY_MARK in f"{c.type} {c.message}" for c in causes))


def _with_causes_in_text(causes: Sequence[Cause]) -> Sequence[Cause]:
    """`causes` with the exceptions of Spark that a sink's Python passed on, of which the JVM has only the text.

    The exceptions around it repeat that text, so theirs ends where the traceback begins.
    """
    proxy = max((at for at, cause in enumerate(causes) if cause.name == _PROXY_TYPE), default=-1)
    passed_on = _passed_on(causes[proxy].message) if proxy >= 0 else []
    if not passed_on:
        return causes
    around = [Cause(cause.type, cause.message.partition(TRACEBACK)[0]) for cause in causes[: proxy + 1]]
    return [*around, *passed_on, *causes[proxy + 1 :]]


def _passed_on(trace: str) -> list[Cause]:
    """The exceptions of Spark that a Python traceback ends with; none when Python itself or Penstock raised the last.

    pyspark gives some of them a class of its own, without the prefix `Spark` of the JVM's, and other text.
    """
    ends = list(_END_OF_TRACEBACK.finditer(trace))
    if not ends or ends[-1][1].startswith("penstock"):
        return []
    text = trace[ends[-1].end() :]
    if ends[-1][1].startswith("py4j"):
        return [Cause(printed[1], printed[2] or "") for printed in _PRINTED.finditer(text)]
    name = ends[-1][2]
    return [Cause(f"Spark{name}" if f"Spark{name}" in _BROKEN_TYPES else name, text)]


def _kind(causes: Sequence[Cause]) -> ErrorKind:
    names = {name for cause in causes for name in (cause.name, *_RAISED_IN_BATCH.findall(cause.message))}
    if names & _FENCED_TYPES or any(mark in cause.message for cause in causes for mark in _FENCED_MARKS):
        return "fenced"
    return "broken_task" if names & _BROKEN_TYPES else "retryable"


def reason_of(error: BaseException) -> str:
    """Why an exception was raised, for people."""
    return failure_of(error).error


def _text(causes: Sequence[Cause]) -> str:
    """The reason with its class, then where: frames of the user's own code, or what was being done.

    Java stacks, plans and frames of libraries are only in the log.
    """
    shorter = next(filter(None, (_SHORTER.search(cause.message) for cause in causes)), None)
    if shorter is not None:
        topic, partition, read, end = shorter.groups()
        return (
            f"inputs: partition {partition} of the topic {topic} ends at {end}, and this task has read to {read}. "
            "Either the topic was deleted and made again, or Kafka lost records. Keep the job until you know: a topic "
            "that was made again has another id. If records are lost: bring back the replica that has them and restart "
            "the job; if they are lost for good, restore a savepoint from before. If the topic was made again: "
            f"{CREATE_AGAIN}"
        )
    own = next((cause for cause in causes if cause.type in _OWN_TYPES or cause.type.startswith(_OWN_CLASSES)), None)
    if own is not None:
        return _plain(own.message)[:_LONGEST_ERROR]
    raised = next((cause.message for cause in reversed(causes) if TRACEBACK in cause.message), None)
    if raised is not None:
        return python_reason(raised)[:_LONGEST_ERROR]
    told = [cause for cause in causes if _plain(cause.message) not in ("", "None")] or list(causes[:1])
    outer, inner = _plain(told[0].message), _plain(told[-1].message)
    reason = inner if inner.startswith("[") else f"{inner} ({told[-1].name})"
    file = next(filter(None, (_FILE.search(cause.message) for cause in causes)), None)
    if file is not None:
        return _of_file(file[1], reason, causes)[:_LONGEST_ERROR]
    if len(told) == 1 or _EMPTY_WORDS.search(outer):
        return reason[:_LONGEST_ERROR]
    return (outer if inner in outer else f"{reason}: {outer}")[:_LONGEST_ERROR]


def _of_file(file: str, reason: str, causes: Sequence[Cause]) -> str:
    """Why a file cannot be read; of a malformed line also what Spark made of it, by which it is found."""
    line = next(filter(None, (_LINE.search(cause.message) for cause in causes)), None)
    if line is None:
        return reason if file in reason else f"{reason}: in the file {file}"
    read = "" if _LINE.search(reason) else f": {reason}"
    mend = 'Mend the file, or set `malformed` of the stream or table to the text "null"'
    return f"a line of the file {file} is malformed, read as {line[1]}{read}. {mend}"


def python_reason(trace: str) -> str:
    """What a Python traceback ends with, and below it the frames of the user's own files, the innermost first. Pure.

    What Penstock raised itself is told without its class.
    """
    lines = trace.rpartition(TRACEBACK)[2].split("\n")
    frames: list[str] = []
    for line, after in pairwise([*lines, ""]):
        frame = _FRAME.match(line)
        if frame is not None and not _LIBRARY.search(frame[1]):
            code = f": {after.strip()}" if after.startswith("    ") else ""
            frames.append(f"  at {frame[1].rpartition('/')[2]}:{frame[2]} in {frame[3]}{code}")
    said = list(dropwhile(lambda line: not line or line[0].isspace(), lines))
    reason = _RAISED_IN_BATCH.sub("", "\n".join(takewhile(str.strip, said)))
    return clean("\n".join([_plain(reason or trace), *reversed(frames[-_MOST_FRAMES:])]))


def _plain(message: str) -> str:
    """A message of Spark with the place in the query, without the plan, the rest of the query and stacks."""
    place = _FRAGMENT.search(message)
    message = _ADVICE.sub(_INSTEAD, _APPENDIX.sub(_position, message))
    text = _STACK.sub("", _PLAN.sub("", message)).strip().rstrip(".;")
    return text if place is None else f"{text}: {' '.join((place[1] or place[2]).split())}"


def _position(match: re.Match[str]) -> str:
    line, position = match[1] or match[3], match[2] or match[4]
    return "" if line is None else f" (line {line}, position {position})"
