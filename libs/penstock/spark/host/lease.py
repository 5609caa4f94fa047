"""The host's copy of the container's lease: when it has run out, tasks must stop."""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock.control.clock import Clock

_LOOK_EVERY_SECONDS = 0.2


class LeaseWatch:
    """Calls `expire` once, when the newest lease has run out. Without any lease it waits for the first one.

    The clock counts while the process, or the machine, is stopped. Once expired it stays so: a late renewal cannot
    bring back a host that has begun to end.
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
        """The lease is good for `seconds` from `sent_at` (the boot clock; now when None). Returns what is left of it.

        Counting from the moment of sending matters when the command waited in the pipe, e.g. of a stopped process. A
        first lease that waited too long, because the host was long in coming up, only means that a fresh one is needed.
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
        """Whether a task may start: not after the lease ran out, nor when the only one read so far came too late."""
        return not self.check() and not self._read_too_late

    def check(self) -> bool:
        """Whether the lease has run out; the first to find that out also calls `expire`."""
        with self._lock:
            if self._expired:
                return True
            self._expired = self._deadline is not None and self._clock.monotonic() >= self._deadline
            has_just_expired = self._expired
        if has_just_expired:
            self._expire()
        return has_just_expired

    def watch(self) -> None:
        """Looks at the clock until the lease has run out. A thread of its own runs this."""
        pause = threading.Event()
        while not self.check():
            pause.wait(_LOOK_EVERY_SECONDS)
