"""A clock for each machine: its own rate and its own offset; what people read may be set, either way."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from tests.support.memory.store import BEGIN


class VirtualClock:
    """As `penstock.control.clock.Clock`. `rate`: seconds that it counts in a true one; offsets in seconds."""

    def __init__(self, true_now: Callable[[], float], *, rate: float, boot: float, wall_offset: float) -> None:
        self._true_now = true_now
        self.rate = rate
        self._boot = boot
        self._wall_offset = wall_offset
        self._jumped = 0.0

    def now(self) -> datetime:
        """Wall time as this machine has it."""
        return BEGIN + timedelta(seconds=round(self._true_now() * self.rate + self._wall_offset + self._jumped, 6))

    def jump(self, seconds: float) -> None:
        """Somebody sets the time; seconds since the start count on."""
        self._jumped += seconds

    def set_right(self) -> None:
        """Undoes that."""
        self._jumped = 0.0

    def monotonic(self) -> float:
        """Seconds since the machine was started."""
        return self._boot + self._true_now() * self.rate
