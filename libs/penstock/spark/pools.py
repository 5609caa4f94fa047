"""Names of scheduler pools. Spark keeps a pool for ever, so the next query takes the name that one gave back."""

from __future__ import annotations

import threading


class SchedulerPools:
    """A host has as many pools as queries ever ran at the same time. May be used from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made = 0
        self._free: list[str] = []

    def take(self) -> str:
        """The name of a pool that no running query has."""
        with self._lock:
            if self._free:
                return self._free.pop()
            self._made += 1
            return f"task-{self._made}"

    def give_back(self, name: str) -> None:
        """The query of this pool has ended."""
        with self._lock:
            self._free.append(name)
