"""Settings of the Shard Manager (`PENSTOCK_*`)."""

from __future__ import annotations

from pydantic import Field, model_validator
from pydantic_settings import SettingsConfigDict

from penstock.control.settings import CommonSettings


class ShardManagerSettings(CommonSettings):
    """Periods have the defaults of 002 section IV; all in seconds of this process's monotonic clock."""

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
