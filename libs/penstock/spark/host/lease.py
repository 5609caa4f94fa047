"""The host's copy of the container's lease. When the lease has ended, tasks must stop."""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock.control.clock import Clock

_CHECK_EVERY_SECONDS = 0.2


class LeaseWatch:
    """Calls `expire` once, when the newest lease has run out. Without any lease it waits for the first one.

    The clock also counts while the process or the machine is stopped. A renewal after the end has no effect, since the
    host has begun to end.
    """

    def __init__(self, clock: Clock, expire: Callable[[], None]) -> None:
        self._clock = clock
        self._expire = expire
        # A signal handler may come in while the main thread holds it.
        self._lock = threading.RLock()
        self._deadline: float | None = None
        self._read_too_late = False
        self._expired = False

    def renew(self, seconds: float, sent_at: float | None) -> float:
        """Renews the lease for `seconds` from `sent_at` (boot clock; None: now). Returns the seconds that are left.

        The command may have waited in the pipe, e.g. of a stopped process, so the lease counts from the sending. If the
        first lease waited too long because the host started slowly, the host only waits for another one.
        """
        if self.check():
            return 0.0
        now = self._clock.monotonic()
        with self._lock:
            good_until = (now if sent_at is None else min(sent_at, now)) + seconds
            self._read_too_late = self._deadline is None and good_until <= now
            if not self._read_too_late:
                self._deadline = good_until
            return good_until - now

    def may_start(self) -> bool:
        """Whether a task may start: not after the lease has ended, and not while the only lease read came too late."""
        return not self.check() and not self._read_too_late

    def check(self) -> bool:
        """Whether the lease has ended. The first call that finds this also calls `expire`."""
        with self._lock:
            if self._expired:
                return True
            self._expired = self._deadline is not None and self._clock.monotonic() >= self._deadline
            has_just_expired = self._expired
        if has_just_expired:
            self._expire()
        return has_just_expired

    def watch(self) -> None:
        """Checks the clock until the lease has ended. Runs on a thread of its own."""
        pause = threading.Event()
        while not self.check():
            pause.wait(_CHECK_EVERY_SECONDS)
