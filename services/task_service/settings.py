"""Settings of the Task Service (`PENSTOCK_*`)."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from penstock.control.settings import CommonSettings


class TaskServiceSettings(CommonSettings):
    """The cache expires after 90 s, as in 002 section IV-D."""

    model_config = SettingsConfigDict(env_prefix="PENSTOCK_", extra="ignore")

    port: int = 7072
    task_service_cache_seconds: float = Field(90.0, gt=0)
    longest_wait_seconds: float = Field(60.0, gt=0)
    keep_samples_days: int = Field(14, ge=1)
