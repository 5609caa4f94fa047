"""A thread that repeats one step."""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock.control.clock import Clock
from penstock.control.errors import PenstockError, RetryableError
from penstock.control.logs import logger

log = logger(__name__)
_AFTER_A_BUG_SECONDS = 1.0


class Outage:
    """Logs the begin and the end of an outage, and nothing in between; `what` is named in the log."""

    def __init__(self, what: str, clock: Clock) -> None:
        self._what = what
        self._clock = clock
        self._since: float | None = None

    def failed(self, error: Exception) -> None:
        """A call failed. An error that is not raised on purpose is logged with its place."""
        if self._since is None:
            self._since = self._clock.monotonic()
            unexpected = None if isinstance(error, PenstockError) else error
            log.warning("not reached", what=self._what, error=str(error), exc_info=unexpected)

    def ended(self) -> None:
        """A call was answered."""
        if self._since is not None:
            log.info("reached again", what=self._what, seconds=round(self._clock.monotonic() - self._since, 3))
            self._since = None


class Worker:
    """Runs `step` again after the seconds that it returns, or when `due` is set, but not before `gap_seconds`.

    A step that did not reach another process is repeated after `retry_seconds`.
    """

    def __init__(
        self,
        name: str,
        step: Callable[[], float],
        clock: Clock,
        retry_seconds: float,
        *,
        due: threading.Event | None = None,
        gap_seconds: float = 0.0,
    ) -> None:
        self._step = step
        self._outage = Outage(name, clock)
        self._retry_seconds = retry_seconds
        self._due = due or threading.Event()
        self._gap_seconds = gap_seconds
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begins with a step."""
        self._thread.start()

    def stop(self, timeout_seconds: float | None = None) -> None:
        """Ends after the present step; after the timeout the thread is left behind."""
        self._stopping.set()
        self._due.set()
        if self._thread.is_alive():
            self._thread.join(timeout_seconds)

    def step(self) -> float:
        """One step. Returns the seconds until the next one; raises nothing."""
        try:
            pause_seconds = self._step()
        except RetryableError as error:
            self._outage.failed(error)
            return self._retry_seconds
        except Exception:
            log.exception("step failed", loop=self._thread.name)
            return _AFTER_A_BUG_SECONDS
        self._outage.ended()
        return pause_seconds

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._due.clear()
            pause_seconds = self.step()
            self._stopping.wait(self._gap_seconds)
            self._due.wait(max(0.0, pause_seconds - self._gap_seconds))
