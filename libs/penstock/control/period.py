"""Limits how often something is done or logged."""

from __future__ import annotations


class Period:
    """It is due at once, and then `seconds` after the last time it was done, counted from when it began.

    What fails is not done, so it is due in the next round again. Times are those of one monotonic clock.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._asked_at = self._begun_at = float("-inf")

    def is_due(self, now: float) -> bool:
        """Whether it is time to begin."""
        self._asked_at = now
        return now - self._begun_at >= self._seconds

    def done(self) -> None:
        """What `is_due` asked for was done."""
        self._begun_at = self._asked_at


class Tally:
    """Counts what may come too often to be told each time. Times are those of one monotonic clock."""

    def __init__(self, seconds: float) -> None:
        """It is told once in so many seconds at most."""
        self._period = Period(seconds)
        self._untold = 0

    def add(self, now: float) -> int:
        """One more. How many to tell now, with those that were not told before; 0: none."""
        self._untold += 1
        if not self._period.is_due(now):
            return 0
        self._period.done()
        told, self._untold = self._untold, 0
        return told
