"""What the error of a task says about the cause. Pure.

The texts are those of `penstock.spark` (`failures.py` and whoever raises `BrokenTask` and `Unavailable`), of the Task
Manager about its hosts, of Spark and of Kafka. The first row that fits counts: a row that names a part goes before one
that names a class of errors.
"""

from __future__ import annotations

import re

from penstock.control.texts import cut
from penstock.model.causes import CauseKind

_MEMORY = re.compile(r"OutOfMemoryError|out of memory|Java heap space|GC overhead|memory limit", re.IGNORECASE)
ENDED_HOST = r"^host (\S+) ended: "
"""Finds the name of the Spark host with which a task ended: a pattern for Python and for Postgres."""
NOT_STARTED = r"\Aits Spark host did not start: "
_TABLE: tuple[tuple[CauseKind, str], ...] = (
    (CauseKind.OUT_OF_MEMORY, _MEMORY.pattern),
    (CauseKind.BAD_CODE, NOT_STARTED + r"package\b"),
    (CauseKind.HOST_ENDED, r"\Ahost \S+ ended: |" + NOT_STARTED),
    (CauseKind.KAFKA_LOGIN, r"^kafka refuses |SaslAuthenticationException|SslAuthenticationException"),
    (
        CauseKind.MALFORMED_INPUT,
        r"does not fit value_schema|malformed_limit|are malformed|has no key, which several tasks|"
        r"is malformed, read as|CSV header does not conform|"
        r"Malformed records? are detected|MALFORMED_RECORD|^value_schema:",
    ),
    (CauseKind.BAD_CODE, r"^(query|package|args|secrets|spark_settings)\b"),
    (
        CauseKind.OUTPUT_ERROR,
        r"^output\b|^output_mode\b|postgres (cannot serve|refuses)|the URL of the sink's connection|"
        r"(?i:kafka did not (take|create|write)|the sink\b|Delta table|DELTA_|no Postgres type|transactional.?id|"
        r"InvalidProducerEpoch|No space left on device)",
    ),
    (
        CauseKind.INPUT_ERROR,
        r"^inputs?\b|^tables?\b|^topic\b|(?i:kafka did not (describe|list|give)|UnknownTopicOrPartition|"
        r"TopicAuthorization|offset was changed|KAFKA_DATA_LOSS|OffsetOutOfRange|bootstrap|broker|"
        r"\bkafka\b.*(timed out|timeout|refused|unavailable)|(TimeoutException|DisconnectException)\)?)",
    ),
    (
        CauseKind.BAD_CODE,
        r"^\[(?!STREAM_FAILED)[A-Z_.]+\]|\n  at [\w.-]+\.py:\d+ in |(?:Analysis|Parse|Arithmetic|NumberFormat|DateTime)"
        r"Exception|^(?:\w+\.)*\w*Error: ",
    ),
)
_ROWS = tuple((kind, re.compile(pattern, re.MULTILINE)) for kind, pattern in _TABLE)


def kind_of(error: str, *, out_of_memory: bool = False) -> CauseKind:
    """The kind of cause that an error names; OTHER_ERROR when it names none."""
    if out_of_memory:
        return CauseKind.OUT_OF_MEMORY
    return next((kind for kind, pattern in _ROWS if pattern.search(error)), CauseKind.OTHER_ERROR)


def ended_host(error: str) -> str:
    """The Spark host with which a task ended; empty when it ended otherwise."""
    found = re.match(ENDED_HOST, error)
    return found.group(1) if found else ""


def has_not_started(error: str) -> bool:
    """Whether no Spark host could be started for the task."""
    return re.match(NOT_STARTED, error) is not None


def first_line(error: str) -> str:
    """The first line, for a list."""
    return cut(error.strip().partition("\n")[0], 300)
