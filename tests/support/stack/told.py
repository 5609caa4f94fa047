"""What processes of a stack have logged, in their order."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

import orjson

from penstock.local.stack import LocalStack


class Line(NamedTuple):
    """A line of a log with its time."""

    at: datetime
    fields: dict[str, Any]


def told(stack: LocalStack, process: str, event: str, **fields: Any) -> list[Line]:
    """The lines of a process with this event and these fields, of all its lives. Logs must be JSON."""
    return [line for line in _lines(stack, process, event) if fields.items() <= line.fields.items()]


def _lines(stack: LocalStack, process: str, event: str) -> Iterator[Line]:
    for raw in stack.supervisor.log_path(process).read_bytes().splitlines():
        try:
            found = orjson.loads(raw)
        except ValueError:  # a JVM's own words
            continue
        if isinstance(found, dict) and found.get("event") == event:
            yield Line(datetime.fromisoformat(found["timestamp"]), found)
