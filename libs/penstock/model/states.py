"""The states and the healths that a job may have, and what the texts of both share. Apart, so that a client which lists
jobs imports no configuration."""

from __future__ import annotations

from enum import StrEnum


class JobState(StrEnum):
    """What a job's state may be; all but `stopped` and `restoring` are states of `sync_state`.

    `queued`: the job waits until the blast-radius budget has room for its rescale or rollout. `pending` is written by
    the Job Service alone: it asks the State Syncer for a fresh decision.
    """

    PENDING = "pending"
    SYNCED = "synced"
    STOPPED = "stopped"
    WAITING = "waiting"
    QUEUED = "queued"
    RESCALING = "rescaling"
    RESTORING = "restoring"
    ROLLING = "rolling"
    FAILED = "failed"
    QUARANTINED = "quarantined"
    DELETING = "deleting"


class Health(StrEnum):
    """How well a job runs. UNKNOWN is never healthy."""

    HEALTHY = "healthy"
    STARTING = "starting"
    LAGGING = "lagging"
    CRASHING = "crashing"
    HELD = "held"
    QUARANTINED = "quarantined"
    STOPPED = "stopped"
    UNKNOWN = "unknown"


class JobSort(StrEnum):
    """What a list of jobs is sorted by: names, owners, states by alphabet, the gravest health and the greatest figure
    first."""

    JOB = "job"
    OWNER = "owner"
    STATE = "state"
    HEALTH = "health"
    LAG = "lag"
    BACKLOG = "backlog"
    RATE = "rate"
    REVISION = "revision"


FAILED_BEFORE = "; the attempt before this one failed: "
"""In the detail of a sync state, between what an attempt waits for and why the one before it failed."""


def failure_before(detail: str) -> str:
    """Why the attempt before the present one failed, by the detail of a sync state; empty when it did not."""
    return detail.partition(FAILED_BEFORE)[2]
