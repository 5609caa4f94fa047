"""Settings of the State Syncer, from `PENSTOCK_*` variables."""

from __future__ import annotations

from pydantic import Field, SecretStr

from penstock.control.settings import CommonSettings
from penstock.tasks.rollout import ROLLOUT_SHARE


class StateSyncerSettings(CommonSettings):
    """The README beside this file says what each setting means. With `gather_seconds` a burst of writes costs few
    rounds. `blast_share` and `blast_count` bound rescales and rollouts together; the lower one counts. `copy_count`
    bounds rescales that only copy yet, beside them."""

    port: int = 7071
    public_url: str | None = Field(None, description="address for other processes (default: host and port)")
    job_service_url: str = "http://127.0.0.1:7070"
    state_syncer_token: SecretStr = SecretStr("")
    state_syncer_period_seconds: float = Field(30.0, gt=0)
    state_syncer_lease_seconds: float = Field(15.0, gt=0)
    state_syncer_renew_seconds: float = Field(5.0, gt=0)
    state_syncer_await_seconds: float = Field(1.0, gt=0)
    state_syncer_gather_seconds: float = Field(0.02, ge=0)
    state_syncer_blast_share: float = Field(0.1, gt=0, le=1)
    state_syncer_blast_count: int = Field(10_000, ge=1)
    state_syncer_rescale_count: int = Field(20, ge=1)
    state_syncer_copy_count: int = Field(20, ge=1)
    state_syncer_host_task_workers: int = Field(16, ge=1)
    state_syncer_host_task_lost_seconds: float = Field(30.0, gt=0)
    state_syncer_rollout_share: float = Field(ROLLOUT_SHARE, gt=0, le=1)
    state_syncer_healthy_seconds: float = Field(15.0, gt=0)
    state_syncer_unhealthy_seconds: float = Field(120.0, gt=0)
    state_syncer_initialize_count: int = Field(32, ge=1)
    state_syncer_savepoints_kept: int = Field(50, ge=1)
    state_syncer_savepoint_days: float | None = Field(None, gt=0)
    state_syncer_generations_kept: int = Field(1, ge=0)
    state_syncer_generation_hours: float = Field(24.0, gt=0)
    state_syncer_generation_look_seconds: float = Field(60.0, gt=0)
    state_syncer_generations_at_once: int = Field(2, ge=1)
