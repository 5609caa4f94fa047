"""Rows of the store to the typed inputs of a decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from penstock.config.fields import dotted
from penstock.config.merge import leaves, overlay
from penstock.config.model import JobConfig, Resources
from services.auto_scaler.algorithm import ScalerState
from services.auto_scaler.symptoms import TaskSample

if TYPE_CHECKING:
    from penstock.store.scaling import SampleRow, ScaledJob


def task_samples(rows: Sequence[SampleRow]) -> list[TaskSample]:
    """Samples of a job; of a stale one only the lack of memory is kept, the rest is unknown now."""
    return [_sample(row) if row.fresh else _stale(row) for row in rows]


def _sample(row: SampleRow) -> TaskSample:
    return TaskSample(
        index=row.index,
        input_rows_per_second=row.input_rows_per_second,
        processed_rows_per_second=row.processed_rows_per_second,
        input_bytes_per_second=row.input_bytes_per_second,
        backlog_records=row.backlog_records,
        backlog_bytes=row.backlog_bytes,
        out_of_memory=row.out_of_memory,
    )


def _stale(row: SampleRow) -> TaskSample:
    return TaskSample(index=row.index, out_of_memory=row.out_of_memory)


def scaler_state(job: ScaledJob, container_memory_bytes: int | None) -> ScalerState:
    """What is known of a job beside its measurements; its last day is not looked at."""
    declared: Mapping[str, Any] = reduce(overlay, job.below, {})
    return ScalerState(
        converged=job.converged,
        running_since=job.committed_at,
        last_action_at=job.acted_at,
        declared_task_count=declared.get("task_count", _DEFAULT_TASK_COUNT),
        declared_memory_bytes=_declared_memory(declared),
        pinned=frozenset(dotted(path) for layer in job.above for path, _ in leaves(layer)),
        container_memory_bytes=container_memory_bytes,
    )


def _declared_memory(declared: Mapping[str, Any]) -> int:
    resources = declared.get("resources", {})
    return int(resources.get("memory_bytes", _DEFAULT_MEMORY_BYTES))


_DEFAULT_TASK_COUNT: int = JobConfig.model_fields["task_count"].default
_DEFAULT_MEMORY_BYTES: int = Resources.model_fields["memory_bytes"].default
