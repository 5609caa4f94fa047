"""The scheduler pools of a host: a heavy query holds up no other one."""

from __future__ import annotations

from collections import deque
from itertools import count


class SchedulerPools:
    """Names of scheduler pools. Spark keeps a pool for ever, so the next query takes the name that one gave back.

    A host has as many pools as queries ever ran at the same time. May be used from several threads.
    """

    def __init__(self) -> None:
        self._numbers = count(1)
        self._free: deque[str] = deque()

    def take(self) -> str:
        """The name of a pool that no running query has."""
        try:
            return self._free.pop()
        except IndexError:
            return f"task-{next(self._numbers)}"

    def give_back(self, name: str) -> None:
        """The query of this pool has ended."""
        self._free.append(name)
