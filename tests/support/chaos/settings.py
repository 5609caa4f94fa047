"""How long chaos lasts, and by which seeds (`tests/e2e/test_chaos.py` says how to repeat one)."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class ChaosSettings(BaseSettings):
    """`CHAOS_*` variables."""

    model_config = SettingsConfigDict(env_prefix="CHAOS_", extra="ignore")

    seeds: tuple[int, ...] = Field((1, 2, 3), description="of the long form, one run each")
    seconds: float = Field(180.0, gt=0, description="of faults, in the long form")
    short_seed: int = Field(563, description="of the short form: a container sleeps past its lease in it")
    short_seconds: float = Field(14.0, gt=0, description="of faults, in the short form")
