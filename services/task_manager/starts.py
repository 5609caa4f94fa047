"""How long task starts took lately, so that a container that starts slowly can be told from others. Pure."""

from __future__ import annotations

import statistics
from collections import deque

LATEST, ENOUGH = 20, 5
"""How many starts are kept; from how many on they tell something."""
WINDOW_SECONDS = 1800.0


class Starts:
    """The latest starts of tasks on ready hosts, those that took too long included."""

    def __init__(self) -> None:
        self._latest: deque[tuple[float, float]] = deque(maxlen=LATEST)

    def took(self, seconds: float, now: float) -> None:
        """One more."""
        self._latest.append((now, seconds))

    def typical_seconds(self, now: float) -> float | None:
        """The median of those within the window; None when there were too few."""
        recent = [seconds for at, seconds in self._latest if now - at < WINDOW_SECONDS]
        return statistics.median(recent) if len(recent) >= ENOUGH else None
