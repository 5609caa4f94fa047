"""Rows at a rate that a story changes while they flow."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.control.repeat import repeating

_PAUSE_S = 0.05


class Pace:
    """`send(n)` is called with as many rows as are due. `rows_per_second` may be changed at any time."""

    def __init__(self, send: Callable[[int], None], rows_per_second: float) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._rate = rows_per_second
        self._due = 0.0
        self._at = time.monotonic()

    def change(self, rows_per_second: float) -> None:
        """From now on so many rows are due in a second."""
        with self._lock:
            self._reckon()
            self._rate = rows_per_second

    @contextmanager
    def flowing(self, name: str) -> Iterator[None]:
        """Rows are sent while this is open."""
        self._at = time.monotonic()
        with repeating(f"pace-{name}", self._step, _PAUSE_S):
            yield

    def _step(self) -> None:
        with self._lock:
            self._reckon()
            rows = int(self._due)
            self._due -= rows
        if rows:
            self._send(rows)

    def _reckon(self) -> None:
        now = time.monotonic()
        self._due += self._rate * (now - self._at)
        self._at = now
