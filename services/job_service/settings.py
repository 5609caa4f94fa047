"""Settings of the Job Service: `PENSTOCK_*` variables."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Self

from pydantic import Field, model_validator
from pydantic_settings import SettingsConfigDict

from penstock.control.settings import CommonSettings
from penstock.kafka.access import Kafka
from penstock.kafka.settings import KafkaSettings
from penstock.model.jobs import Role
from penstock.tasks.rollout import ROLLOUT_SHARE
from services.job_service.notify.targets import Target, require_own_names

LEFT_OUTPUTS_KEPT_DAYS = 90
"""What was noted of rows that a job has left goes after so long, where nobody writes or reads any more."""


class JobServiceSettings(KafkaSettings, CommonSettings):
    """Settings besides the common ones. Periods are in seconds.

    `job_service_tls` false: a proxy in front, such as an ingress, speaks TLS with users, so this port never does.
    `job_service_connections` takes the place of `database_connections`. `state_syncer_rollout_share` must be what the
    State Syncer has. `path_roots`: Hadoop paths, as the hosts have them. Tables and outputs of jobs are below them.
    """

    # The addresses and secrets of webhooks are in no error.
    model_config = SettingsConfigDict(hide_input_in_errors=True)

    port: int = Field(7070, ge=0, le=65535)
    job_service_connections: int = Field(40, ge=2)
    job_service_largest_body_bytes: int = Field(16 * 2**20, ge=1)
    job_service_token_cache_seconds: float = Field(1.0, ge=0)
    job_service_calls_per_second: float | None = Field(None, gt=0)
    job_service_calls_at_once: int = Field(100, ge=1)
    job_service_bytes_per_second: float | None = Field(None, gt=0)
    job_service_bytes_at_once: int = Field(64 * 2**20, ge=1)
    job_service_largest_body_of_roles: dict[Role, Annotated[int, Field(ge=1)]] = {}  # noqa: RUF012
    job_service_event_streams: int = Field(200, ge=0)
    job_service_event_seconds: float = Field(1.0, ge=0)
    job_service_admin_warning_seconds: float = Field(1_209_600.0, ge=0)
    expiry_period_seconds: float = Field(1.0, gt=0)
    expiry_lease_seconds: float = Field(10.0, gt=0)
    idempotency_kept_seconds: float = Field(86_400.0, gt=0)
    decisions_kept_days: int = Field(14, ge=1)
    alerts_kept_days: int = Field(90, ge=1)
    fleet_kept_days: int = Field(35, ge=1)
    history_kept_days: int | None = Field(None, ge=1)
    task_service_url: str = "http://127.0.0.1:7072"
    kafka_bootstrap: str | None = None
    reports_old_seconds: float = Field(60.0, gt=0)
    state_syncer_rollout_share: float = Field(ROLLOUT_SHARE, gt=0, le=1)
    job_service_tls: bool = True
    path_roots: tuple[str, ...] = ()
    notify_targets: tuple[Target, ...] = ()
    notify_gather_seconds: float = Field(10.0, ge=0)
    notify_period_seconds: float = Field(5.0, gt=0)
    notify_lease_seconds: float = Field(15.0, gt=0)
    notify_console_url: str = ""
    runbook_url: str = ""

    def ages(self) -> dict[str, timedelta]:
        """The ages at which rows go, by table. Without a setting the history stays."""
        days = {
            "decisions": self.decisions_kept_days,
            "alerts": self.alerts_kept_days,
            "fleet_minutes": self.fleet_kept_days,
            "left_outputs": LEFT_OUTPUTS_KEPT_DAYS,
        }
        if self.history_kept_days is not None:
            days["history"] = self.history_kept_days
        return {table: timedelta(days=count) for table, count in days.items()}

    @model_validator(mode="after")
    def _targets_have_own_names(self) -> Self:
        require_own_names(self.notify_targets)
        return self

    @model_validator(mode="after")
    def _open_only_to_this_machine(self) -> Self:
        """Without authentication everybody who reaches the port is an admin."""
        if not self.authentication and not self.is_loopback():
            raise ValueError(
                f"authentication is off (PENSTOCK_AUTHENTICATION), so the Job Service may not be bound to {self.host}"
            )
        return self

    @model_validator(mode="after")
    def _each_cluster_once(self) -> Self:
        if self.kafka_bootstrap is not None:
            self.require_own_brokers(self.kafka_bootstrap)
        return self

    def kafkas(self) -> list[Kafka]:
        """How the clusters that it was told of are reached. Raises Unavailable when a file cannot be read."""
        own = [] if self.kafka_bootstrap is None else [self.kafka_of(self.kafka_bootstrap)]
        return [*own, *map(self.further_cluster, self.cluster_names)]

    def serves_tls(self) -> bool:
        """Whether the users' port speaks TLS."""
        return self.job_service_tls and self.uses_tls()

    def url(self) -> str:
        """The address of this process."""
        return f"{'https' if self.serves_tls() else 'http'}://{self.host}:{self.port}"
