"""Rules for `timestamp_format`: how an output writes times. Spark reads the letters of a pattern later."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.config.event_time import wrong_format
from penstock.config.model import FilesOutput, JobConfig, KafkaOutput
from penstock.config.problems import Problem

_FIELD = "output.timestamp_format"


def timestamp_format_problems(config: JobConfig) -> Iterator[Problem]:
    """Of the output."""
    output = config.output
    if not isinstance(output, KafkaOutput | FilesOutput) or output.timestamp_format is None:
        return
    kind = output.value_format if isinstance(output, KafkaOutput) else output.format
    if kind not in ("json", "csv"):
        detail = f"{_FIELD} is of json and csv only; the format is {kind}"
        yield Problem(_FIELD, "timestamp_format_of_text", detail)
    wrong = wrong_format(output.timestamp_format)
    if wrong is not None:
        yield Problem(_FIELD, "timestamp_pattern", f"{_FIELD} is {output.timestamp_format}: {wrong}")
