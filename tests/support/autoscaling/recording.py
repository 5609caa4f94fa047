"""Real runs as `tests.support.autoscaling.record` writes them: rows that came, tasks, and what the job measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

from pydantic import TypeAdapter

from penstock.config.declare import Model

QUANTITIES = (
    "input_rows_per_second",
    "processed_rows_per_second",
    "backlog_records",
    "lag_seconds",
    "busy_share",
    "tasks_running",
)
"""Names of metrics of `GET /v1/jobs/{job}/metrics`."""


class RecordedStep(Model):
    """A minute. `tasks`: that were asked for. `measured`: by quantity; None was not measured."""

    sent_rows_per_second: float
    tasks: int
    measured: Mapping[str, float | None]


class RecordedChange(Model):
    """A change of the number of tasks at the beginning of a step. `seconds`: from the request to the first commit of
    the new tasks; `down_seconds`: the part of it after the last commit of the old ones."""

    step: int
    down_seconds: float
    seconds: float


class RecordedRun(Model):
    """What happened to one job."""

    name: str
    steps: Sequence[RecordedStep]
    changes: Sequence[RecordedChange]


class Recording(Model):
    """Runs side by side. `load`: of the machine with so many cores, over 5 minutes at the end. `key_group_shares`: of
    the input of each job."""

    recorded_on: date
    cores: int
    load: float
    key_group_shares: Sequence[float]
    runs: Sequence[RecordedRun]


def read_recordings(file: Path) -> Mapping[str, Recording]:
    """The recordings by part."""
    return TypeAdapter(dict[str, Recording]).validate_json(file.read_bytes())
