"""What the store holds of templates and measurements, as pure code sees it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class StoredTemplate(NamedTuple):
    """A running row, not validated: `config` and `rollout` are JSON text. `stopping`: no task may run."""

    job: str
    config: str
    revision: int
    generation: int
    restarts: int
    stopping: bool
    commit_number: int
    rollout: str | None = None


class Changes(NamedTuple):
    """All that was committed above a commit number and up to `commit_number`; `removed`: forgotten job to commit."""

    commit_number: int
    shard_count: int
    stored: tuple[StoredTemplate, ...]
    removed: dict[str, int]


@dataclass(frozen=True, slots=True)
class TaskSample:
    """A task's measurements now; None is unknown."""

    job: str
    index: int
    input_rows_per_second: float | None
    processed_rows_per_second: float | None
    input_bytes_per_second: float | None
    backlog_records: int | None
    backlog_bytes: int | None
    lag_seconds: float | None
    state_rows: int | None
    state_memory_bytes: int | None
    batch_seconds: float | None
    out_of_memory: bool
