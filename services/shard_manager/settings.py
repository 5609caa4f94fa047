"""Settings of the Shard Manager (`PENSTOCK_*`)."""

from __future__ import annotations

from pydantic import Field, model_validator
from pydantic_settings import SettingsConfigDict

from penstock.control.settings import CommonSettings


class ShardManagerSettings(CommonSettings):
    """Periods have the defaults of 002 section IV; all in seconds of this process's monotonic clock.

    Shards are placed anew every `replacement_seconds` and when something asks for it. Loads are looked at every
    `load_check_seconds`, changed jobs `job_check_seconds` after the last look. `placement_band`, `placement_headroom`:
    shares, as in `placement.problem`; `move_budget`: how many shards a placement may move for balance, None: any.
    """

    model_config = SettingsConfigDict(env_prefix="PENSTOCK_", extra="ignore")

    port: int = 7073
    public_url: str | None = None
    shard_manager_round_seconds: float = Field(1.0, gt=0)
    shard_manager_lease_seconds: float = Field(15.0, gt=0)
    container_lease_seconds: float = Field(40.0, gt=0)
    fail_over_seconds: float = Field(60.0, gt=0)
    drop_deadline_seconds: float = Field(10.0, gt=0)
    drop_retry_seconds: float = Field(15.0, gt=0)
    add_limit_seconds: float = Field(30.0, gt=0)
    moves_in_flight: int = Field(32, ge=1)
    gather_seconds: float = Field(1.0, ge=0)
    gather_limit_seconds: float = Field(5.0, ge=0)
    replacement_seconds: float = Field(1800.0, gt=0)
    load_check_seconds: float = Field(60.0, gt=0)
    job_check_seconds: float = Field(5.0, ge=0)
    placement_band: float = Field(0.1, gt=0, lt=1)
    placement_headroom: float = Field(0.1, ge=0, lt=1)
    move_budget: int | None = Field(1000, ge=0)
    set_aside_share: float = Field(0.1, ge=0, le=1)
    drain_grace_seconds: float = Field(60.0, gt=0)
    gray_look_seconds: float = Field(30.0, gt=0)
    gray_window_seconds: float = Field(1800.0, gt=0)
    save_heartbeats_seconds: float = Field(5.0, gt=0)
    forget_lost_seconds: float = Field(7 * 86_400.0, gt=0)

    @model_validator(mode="after")
    def _lease_ends_first(self) -> ShardManagerSettings:
        if self.container_lease_seconds >= self.fail_over_seconds:
            raise ValueError("container_lease_seconds must be below fail_over_seconds: tasks stop before shards move")
        return self

    def url(self) -> str:
        """Where Task Managers reach this process."""
        return self.public_url or f"http://{self.host}:{self.port}"
