"""Logs the begin and the end of an outage, and nothing in between."""

from __future__ import annotations

from penstock.control.clock import Clock
from penstock.control.errors import RetryableError
from penstock.control.logs import logger

log = logger(__name__)


class Outage:
    """Whether one other process is reachable; `what` names it in the log."""

    def __init__(self, what: str, clock: Clock) -> None:
        self._what = what
        self._clock = clock
        self._since: float | None = None

    def failed(self, error: RetryableError) -> None:
        """A call failed."""
        if self._since is None:
            self._since = self._clock.monotonic()
            log.warning("not reached", what=self._what, error=error.detail)

    def ended(self) -> None:
        """A call was answered."""
        if self._since is not None:
            log.info("reached again", what=self._what, seconds=round(self._clock.monotonic() - self._since, 3))
            self._since = None
