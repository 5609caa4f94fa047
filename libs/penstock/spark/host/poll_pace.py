"""When a host asks its queries how far they are. Pure: the clock is passed in."""

from __future__ import annotations

OFTEN_SECONDS = 0.1
_HURRIED_FOR_SECONDS = 10.0


class PollPace:
    """Each `interval_seconds`; but every `OFTEN_SECONDS` while a task has an order to take no more rows and has not
    said that it is quiet, since its job stands still until that is known. A batch that lasts longer than ten seconds
    is polled as seldom as ever."""

    def __init__(self, interval_seconds: float) -> None:
        self.tick_seconds = min(OFTEN_SECONDS, interval_seconds)
        self._interval_seconds = interval_seconds
        self._polled: float | None = None
        self._awaits_since: float | None = None

    def is_due(self, now: float, *, awaits_quiet: bool) -> bool:
        """Whether to poll now, in seconds of a clock that never goes back; asked each `tick_seconds`."""
        if not awaits_quiet:
            self._awaits_since = None
        elif self._awaits_since is None:
            self._awaits_since = now
        is_hurried = self._awaits_since is not None and now - self._awaits_since < _HURRIED_FOR_SECONDS
        # The tick that comes closest to the interval counts.
        is_time = self._polled is None or now - self._polled > self._interval_seconds - self.tick_seconds / 2
        if is_hurried or is_time:
            self._polled = now
            return True
        return False
