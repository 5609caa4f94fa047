"""What the benches share: percentiles, a temporary stack, and the last line of one JSON object."""

from __future__ import annotations

import json
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from penstock.control import logs
from penstock.local.kafka import EmbeddedKafka
from penstock.local.stack import LocalStack
from tests.support.spark.hosts import COMPILED
from tests.support.spark.session import CHECKPOINTS, local_session


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of the values do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -(-int(share * 100) * len(ordered) // 100) - 1))]


def say(text: str) -> None:
    """A line for people, before the last one."""
    print(text, flush=True)


def finish(figures: Mapping[str, Any], *, places: int = 3) -> None:
    """The last line: one JSON object, numbers to so many places, also those of objects in it.

    To be called when the servers and hosts of the bench are gone: they may print until then.
    """
    print(json.dumps(_rounded(figures, places)), flush=True)


def _rounded(value: Any, places: int) -> Any:
    if isinstance(value, Mapping):
        return {name: _rounded(each, places) for name, each in value.items()}
    return round(value, places) if isinstance(value, float) else value


def let_pass(seconds: float) -> None:
    """Returns after so long: what runs meanwhile is measured."""
    threading.Event().wait(seconds)


@contextmanager
def broker_and_session() -> Iterator[tuple[EmbeddedKafka, SparkSession, Path]]:
    """A Kafka broker, a Spark session in `local[2]` with Penstock's checkpoint files, and a folder; gone at the end."""
    logs.configure("bench", level="ERROR")
    with (
        tempfile.TemporaryDirectory(prefix="penstock-bench-", ignore_cleanup_errors=True) as name,
        EmbeddedKafka(Path(name) / "kafka") as kafka,
        local_session(Path(name), COMPILED) as session,
    ):
        # Spark's default forks a process for each file, which would hide all else.
        session.conf.set("spark.sql.streaming.checkpointFileManagerClass", CHECKPOINTS)
        yield kafka, session, Path(name)


@contextmanager
def temporary_stack(*, task_managers: int, environment: Mapping[str, str] | None = None) -> Iterator[LocalStack]:
    """The whole stack in a folder of its own, on free ports; gone at the end."""
    logs.configure("bench", level="ERROR")
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        stack = LocalStack(
            Path(folder), task_managers=task_managers, free_ports=True, environment=environment, on_event=_to_stderr
        )
        with stack:
            yield stack


def _to_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
