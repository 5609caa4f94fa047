"""Settings of the State Syncer, from `PENSTOCK_*` variables."""

from __future__ import annotations

from pydantic import Field

from penstock.control.settings import CommonSettings


class StateSyncerSettings(CommonSettings):
    """`await_seconds`: between looks at the tasks of a job that is being deleted. `gather_seconds`: between a wake-up
    and its round, so that a burst of writes costs few rounds."""

    port: int = 7071
    state_syncer_period_seconds: float = Field(30.0, gt=0)
    state_syncer_lease_seconds: float = Field(15.0, gt=0)
    state_syncer_renew_seconds: float = Field(5.0, gt=0)
    state_syncer_await_seconds: float = Field(1.0, gt=0)
    state_syncer_gather_seconds: float = Field(0.02, ge=0)
