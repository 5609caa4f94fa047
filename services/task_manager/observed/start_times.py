"""How long task starts took lately. The Shard Manager uses it to find containers that start slowly. Pure."""

from __future__ import annotations

import statistics
from collections import deque

MOST_KEPT = 20
FEWEST = 5
"""With fewer recent starts the typical time is unknown."""
WINDOW_SECONDS = 1800.0


class StartTimes:
    """The latest starts of tasks on ready hosts, including starts that took too long."""

    def __init__(self) -> None:
        self._latest: deque[tuple[float, float]] = deque(maxlen=MOST_KEPT)

    def add(self, seconds: float, now: float) -> None:
        """A start has taken so long."""
        self._latest.append((now, seconds))

    def typical_seconds(self, now: float) -> float | None:
        """The median within the window; None when there are too few starts."""
        recent = [seconds for at, seconds in self._latest if now - at < WINDOW_SECONDS]
        return statistics.median(recent) if len(recent) >= FEWEST else None
