"""Rows that the Task Service reads and writes, as typed values. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple


class StoredTemplate(NamedTuple):
    """A running row, not validated. `config` and `rollout` are JSON texts. `stopping`: no task may run. `quiescing`: no
    task takes more rows (`TaskTemplate.level_ms`). `coming`: a `penstock.tasks.spec.Coming` as JSON, with more."""

    job: str
    config: str
    revision: int
    generation: int
    restarts: int
    stopping: bool
    commit_number: int
    rollout: str | None = None
    quiescing: bool = False
    level_ms: int | None = None
    coming: str | None = None


class Changes(NamedTuple):
    """All commits above a given number, up to `commit_number`. `removed`: forgotten job to its commit. `incarnation`:
    that of the store (`penstock.store.incarnation`)."""

    commit_number: int
    shard_count: int
    stored: tuple[StoredTemplate, ...]
    removed: dict[str, int]
    incarnation: str = ""


class ReportedTask(NamedTuple):
    """What a task reported last. `progress`: JSON of `penstock.model.reports.TaskProgress`, without what is no
    measurement. `is_of_running`: whether it is of the revision that the task should run, or later. `task_count` and the
    last two are JSON values as they are stored: of the job's running configuration, and of the newest load, which
    is no longer known when it is old. `errors`: how often it ended by itself since the last samples, by class."""

    job: str
    number: int
    state: str
    out_of_memory: bool
    progress: str | None
    crashes: int = 0
    task_count: object = None
    is_of_running: bool | None = None
    cpu_cores: object = None
    memory_bytes: object = None
    errors: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class TaskSample:
    """A task's measurements at one moment: a row of `task_metrics`. None is unknown."""

    job: str
    index: int
    out_of_memory: bool
    lag_seconds: float | None
    input_rows_per_second: float | None
    processed_rows_per_second: float | None
    input_bytes_per_second: float | None
    batch_seconds: float | None
    backlog_records: int | None
    backlog_bytes: int | None
    state_rows: int | None
    state_memory_bytes: int | None
    busy_share: float | None
    late_rows_per_second: float | None
    cpu_cores: float | None
    memory_bytes: float | None
    running: bool
    crashes: int
    task_count: int | None
    key_group_backlog_records: int | None
    errors_out_of_memory: int
    errors_configuration: int
    errors_fenced: int
    errors_host: int
    errors_other: int
