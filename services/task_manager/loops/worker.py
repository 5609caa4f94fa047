"""A thread that repeats one step."""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock.control.logs import logger

log = logger(__name__)
_AFTER_A_BUG_SECONDS = 1.0


class Worker:
    """Runs `step` again after the seconds that it returns, or when `due` is set, but not before `gap_seconds`."""

    def __init__(
        self, name: str, step: Callable[[], float], *, due: threading.Event | None = None, gap_seconds: float = 0.0
    ) -> None:
        self._step = step
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

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._due.clear()
            pause_seconds = self._step_safely()
            self._stopping.wait(self._gap_seconds)
            self._due.wait(max(0.0, pause_seconds - self._gap_seconds))

    def _step_safely(self) -> float:
        try:
            return self._step()
        except Exception:
            log.exception("step failed", loop=self._thread.name)
            return _AFTER_A_BUG_SECONDS
