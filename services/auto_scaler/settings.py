"""Settings of the Auto Scaler, from `PENSTOCK_*` variables."""

from __future__ import annotations

from pydantic import Field, SecretStr

from penstock.control.settings import CommonSettings
from services.auto_scaler.decide.policy import Policy


class AutoScalerSettings(CommonSettings):
    """`scaler_policy` is a JSON object with any of the fields of `Policy`."""

    port: int = 7074
    public_url: str | None = Field(None, description="address for other processes (default: host and port)")
    job_service_url: str = "http://127.0.0.1:7070"
    scaler_token: SecretStr = SecretStr("")
    scaler_period_seconds: float = Field(60.0, gt=0)
    scaler_lease_seconds: float = Field(15.0, gt=0)
    scaler_renew_seconds: float = Field(5.0, gt=0)
    scaler_policy: Policy = Policy()
