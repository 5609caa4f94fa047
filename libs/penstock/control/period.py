"""What is done now and then in rounds that come more often."""

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
