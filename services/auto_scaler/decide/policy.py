"""How the scaler behaves. `README.md` beside this file has a row for each field: a test compares the two."""

from __future__ import annotations

from datetime import datetime, time
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from penstock.config.declare import Model

Share = Annotated[float, Field(ge=0, le=1)]
# No time is beyond what a datetime can hold.
Seconds = Annotated[float, Field(ge=0, le=1e9)]
Minutes = Annotated[int, Field(ge=0)]
Count = Annotated[int, Field(ge=1)]
# Minutes that are looked at one by one.
Span = Annotated[int, Field(ge=1, le=1440)]
# Minutes that are looked at one by one, of each task of a job.
SpanOfTasks = Annotated[int, Field(ge=1, le=60)]


def _without_zone(at: time) -> time:
    if at.tzinfo is not None:
        raise ValueError("must be a time of day in UTC, such as 08:00, without a zone")
    return at


TimeOfDay = Annotated[time, AfterValidator(_without_zone)]
Weekday = Annotated[int, Field(ge=0, le=6)]


class Mode(StrEnum):
    """`advise` records what it would do, and does nothing."""

    ACT = "act"
    ADVISE = "advise"


class Window(Model):
    """A time of day in UTC, over midnight when it ends before it starts. `weekdays`: 0 is Monday; none means all."""

    start: TimeOfDay
    end: TimeOfDay
    weekdays: frozenset[Weekday] = frozenset()

    @field_validator("end")
    @classmethod
    def _lasts(cls, end: time, info: ValidationInfo) -> time:
        if end == info.data.get("start"):
            raise ValueError(f"must differ from start: a window from {end:%H:%M} to {end:%H:%M} has no length")
        return end

    def contains(self, moment: datetime) -> bool:
        """Whether the moment is within it. A window over midnight belongs to the day on which it starts."""
        at, day = moment.time(), moment.weekday()
        if self.start <= self.end:
            return self.start <= at < self.end and self._is_on(day)
        return (at >= self.start and self._is_on(day)) or (at < self.end and self._is_on((day - 1) % 7))

    def _is_on(self, day: int) -> bool:
        return not self.weekdays or day in self.weekdays


class Policy(Model):
    """Any of these may be set by `PENSTOCK_SCALER_POLICY`."""

    mode: Mode = Mode.ACT

    cooldown_seconds: Seconds = 300.0
    early_share: Share = 0.5
    growth_factor: float = Field(2.0, gt=1)
    imbalance_threshold: float = Field(0.5, ge=0)
    hot_task_share: Share = 0.75
    least_gain: Share = 0.1
    bad_task_share: Share = 0.5
    traffic_seconds: Seconds = 60.0
    memory_growth_factor: float = Field(1.5, gt=1)
    vertical_share: Share = 0.2

    shrink_cooldown_seconds: Seconds = 3600.0
    shrink_factor: float = Field(0.75, gt=0, lt=1)
    known_shrink_factor: float = Field(0.5, gt=0, lt=1)
    least_reduction: Share = 0.25
    too_few_seconds: Seconds = 86_400.0
    quiet_minutes: Minutes = 1440
    known_quiet_minutes: Minutes = 60
    least_coverage: Share = 0.9

    rate_minutes: Span = 180
    latest_minutes: Span = 15
    busy_share: Share = 0.5
    least_busy_minutes: Count = 5
    load_minutes: SpanOfTasks = 3
    headroom: float = Field(0.2, ge=0)
    recovery_seconds: float = Field(900.0, gt=0)
    recovery_per_slo: float = Field(10.0, gt=0)
    memory_headroom: float = Field(0.25, ge=0)

    history_days: int = Field(14, ge=1, le=60)
    history_every_minutes: Minutes = 10
    least_days: Count = 2
    ahead_minutes: Span = 240
    soon_minutes: Span = 30
    slack_minutes: int = Field(15, ge=0, le=240)
    recent_minutes: Span = 30
    unusual_ratio: float = Field(1.5, gt=1)
    prescale: bool = True

    least_effect: Share = 0.3
    effect_seconds: Seconds = 900.0
    slow_share: Share = 0.15
    update_watch_seconds: Seconds = 1800.0
    untriaged_seconds: Seconds = 3600.0
    stopped_seconds: Seconds = 86_400.0
    stopped_ratio: float = Field(1.5, gt=1)
    breaker_least_jobs: Count = 20
    breaker_lagging_share: Share = 0.3
    breaker_unmeasured_share: Share = 0.5

    max_actions_per_hour: Count = 6
    max_actions_per_round: Count = 50
    peak_hours: tuple[Window, ...] = ()
    maintenance: tuple[Window, ...] = ()
