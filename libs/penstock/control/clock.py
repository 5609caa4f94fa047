"""The clock as an argument: wall time for people and the store, monotonic time for leases and periods."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What loops ask for the time, so that tests and simulation can give another."""

    def now(self) -> datetime:
        """Wall time, UTC."""

    def monotonic(self) -> float:
        """Seconds that never go back, also counted while the process is stopped."""


class SystemClock:
    """The machine's clock. CLOCK_BOOTTIME counts suspension too, so a lease cannot outlive a sleep."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)
