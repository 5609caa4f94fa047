"""What is reserved for each task of a job, and the job's targets."""

from __future__ import annotations

from pydantic import Field

from penstock.config.declare import DECLARED_BY_USER, ChangeKind, DeclaredModel, declare

NONE, LIVE, RESTART = ChangeKind.NONE, ChangeKind.LIVE, ChangeKind.RESTART


class Resources(DeclaredModel):
    """Reserved for each task."""

    cpu_cores: float = Field(0.25, gt=0, le=256, **declare(LIVE, unit="cores"))
    """CPU reserved for a task. Placement uses the measured load once it is known. Until then it uses that of the job's
    other tasks, else the reservation; for isolated tasks always the reservation."""
    memory_bytes: int = Field(400 * 2**20, ge=64 * 2**20, le=2**42, **declare(RESTART, unit="bytes"))
    """Memory of a task. For an isolated task it is the limit of the process."""
    disk_bytes: int = Field(2**30, ge=0, le=2**50, **declare(LIVE, unit="bytes"))
    """Local disk of a task."""


class Slo(DeclaredModel):
    """Targets of the job."""

    max_lag_seconds: float = Field(90.0, gt=0, le=604_800, **declare(NONE, DECLARED_BY_USER, unit="seconds"))
    """The job is unhealthy when it lags behind by more than this."""
