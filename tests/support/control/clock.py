"""A clock that the test advances."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class FakeClock:
    """A clock that the test advances by `seconds`."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def now(self) -> datetime:
        return datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds
