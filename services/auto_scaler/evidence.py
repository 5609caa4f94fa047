"""What the store knows of a job, and the input of a decision that follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import reduce
from typing import Any, NamedTuple

from penstock.config.merge import leaves, overlay
from penstock.config.model import JobConfig, Resources
from penstock.config.tree import dotted
from services.auto_scaler.algorithm import ScalerState


class LastDecision(NamedTuple):
    """The newest stored decision about a job."""

    symptom: str
    action: str
    outcome: str


class ScaledJob(NamedTuple):
    """A job with tasks. `below` and `above`: the layers around the scaler's, lowest first.

    `layer_version` is the version of the scaler's layer, 0 when the layer was never written. `acted_at`: when the
    scaler last wrote the layer, began to, or was refused.
    """

    job: str
    config: Mapping[str, Any]
    committed_at: datetime
    converged: bool
    layer_version: int
    below: tuple[Mapping[str, Any], ...]
    above: tuple[Mapping[str, Any], ...]
    last: LastDecision | None
    acted_at: datetime | None


def scaler_state(job: ScaledJob, container_memory_bytes: int | None) -> ScalerState:
    """What is known of a job besides its measurements, without the history of its last day."""
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
