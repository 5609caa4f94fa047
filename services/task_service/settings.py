"""Settings of the Task Service (`PENSTOCK_*`)."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from penstock.control.settings import CommonSettings


class TaskServiceSettings(CommonSettings):
    """The cache expires after 90 s, as in Turbine, section IV."""

    model_config = SettingsConfigDict(env_prefix="PENSTOCK_", extra="ignore")

    port: int = Field(7072, description="port of the HTTP side")
    task_service_cache_seconds: float = Field(90.0, gt=0, description="time between two full reads of the store")
    longest_wait_seconds: float = Field(60.0, gt=0, description="longest time that a request for a delta waits")
    held_back_alert_seconds: float = Field(
        300.0, gt=0, description="time that a task waits for a silent producer of its input before an alert is raised"
    )
    keep_samples_days: int = Field(14, ge=1, description="age at which minutes of jobs and loads are deleted")
    keep_task_samples_days: int = Field(
        2, ge=1, description="age at which samples of tasks are deleted, once their hours are rolled"
    )
