"""Settings of the Shard Manager (`PENSTOCK_*`)."""

from __future__ import annotations

from pydantic import Field, model_validator
from pydantic_settings import SettingsConfigDict

from penstock.control.settings import CommonSettings


class ShardManagerSettings(CommonSettings):
    """Times are seconds of this process's monotonic clock. The defaults of periods are those of Turbine, section IV."""

    model_config = SettingsConfigDict(env_prefix="PENSTOCK_", extra="ignore")

    port: int = Field(7073, description="port of the HTTP side")
    public_url: str | None = Field(None, description="address for Task Managers (default: host and port)")
    shard_manager_round_seconds: float = Field(1.0, gt=0, description="time between two rounds without events")
    shard_manager_lease_seconds: float = Field(15.0, gt=0, description="lease of the leader")
    container_lease_seconds: float = Field(
        40.0, gt=0, description="lease of a container; must be below the fail-over interval"
    )
    fail_over_seconds: float = Field(60.0, gt=0, description="silence after which a container is declared lost")
    drop_deadline_seconds: float = Field(
        10.0,
        gt=0,
        le=3600,
        description="time for the tasks of a dropped shard to stop; then their host ends within 30 s",
    )
    drop_retry_seconds: float = Field(15.0, gt=0, description="time after which a DROP without an answer is repeated")
    add_limit_seconds: float = Field(
        30.0, gt=0, description="time after which a container that does not take its shards is drained"
    )
    moves_in_flight: int = Field(32, ge=1, description="most running shards that move towards the target at a time")
    gather_seconds: float = Field(
        1.0, ge=0, description="pause in joins after which shards without an owner are placed"
    )
    gather_limit_seconds: float = Field(5.0, ge=0, description="longest wait for more containers to join")
    replacement_seconds: float = Field(
        1800.0, gt=0, description="time after which shards are placed again without other reason"
    )
    load_check_seconds: float = Field(
        60.0, gt=0, description="time between two reads of loads, and to a placement after an unfinished one"
    )
    job_check_seconds: float = Field(5.0, ge=0, description="shortest time between two reads of changed jobs")
    placement_band: float = Field(
        0.1, gt=0, lt=1, description="largest deviation of a container from its tier's mean, as a share"
    )
    placement_headroom: float = Field(0.1, ge=0, lt=1, description="share of every capacity that is kept free")
    move_budget: int | None = Field(1000, ge=0, description="most moves for balance in a placement; none: any number")
    set_aside_share: float = Field(
        0.1, ge=0, le=1, description="share of the containers that may be set aside at a time; at least one"
    )
    drain_grace_seconds: float = Field(
        60.0, gt=0, description="time after a drain's limit at which the container's lease is not renewed any more"
    )
    outlier_check_seconds: float = Field(30.0, gt=0, description="time between two searches for outliers")
    outlier_window_seconds: float = Field(1800.0, gt=0, description="period over which crashes and times are counted")
    reports_old_seconds: float = Field(
        60.0, gt=0, description="age of a container's newest report after which there is an alert"
    )
    reports_failing_seconds: float = Field(600.0, gt=0, description="the same, after which it is cordoned")
    save_heartbeats_seconds: float = Field(5.0, gt=0, description="time between two writes of the times of heartbeats")
    forget_lost_seconds: float = Field(7 * 86_400.0, gt=0, description="age at which lost containers are forgotten")

    @model_validator(mode="after")
    def _lease_ends_first(self) -> ShardManagerSettings:
        if self.container_lease_seconds >= self.fail_over_seconds:
            raise ValueError("container_lease_seconds must be below fail_over_seconds: tasks stop before shards move")
        return self

    def url(self) -> str:
        """The URL at which Task Managers reach this process."""
        return self.address(self.port, self.public_url)
