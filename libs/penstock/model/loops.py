"""The newest round of a control loop, as others see it. Pure."""

from __future__ import annotations

from typing import NamedTuple

from penstock.model.alert_rules import limit_of
from penstock.model.alerts import AlertKind

STALLED_PERIODS = limit_of(AlertKind.LOOP_STALLED)
LEAST_STALLED_SECONDS = 30.0
"""A loop is stalled after so many periods without a good round, and not before so many seconds."""


class LoopRound(NamedTuple):
    """The newest noted round of a loop. Ages are in seconds, by the store's clock; None: it never had a good one."""

    loop: str
    epoch: int
    period_seconds: float
    seconds: float
    error: str | None
    age_seconds: float
    good_age_seconds: float | None

    @property
    def is_stalled(self) -> bool:
        """Whether a good round is overdue."""
        overdue = max(LEAST_STALLED_SECONDS, STALLED_PERIODS * self.period_seconds)
        since = self.age_seconds if self.good_age_seconds is None else self.good_age_seconds
        return since > overdue

    @property
    def trouble(self) -> str:
        """Since when there was no round, or no good one, and why not."""
        if self.error is None:
            return f"no round for {self.age_seconds:.0f} s"
        good = "ever" if self.good_age_seconds is None else f"for {self.good_age_seconds:.0f} s"
        return f"no good round {good}: {self.error}"
