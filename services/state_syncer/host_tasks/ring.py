"""Consistent hashing: chooses a name for a key by the names alone, so every process makes the same choice. Pure."""

from __future__ import annotations

import hashlib
from bisect import bisect
from collections.abc import Iterable
from itertools import chain

POINTS = 16
"""Of each name: the more, the more even."""


class Ring:
    """Names on a ring. When a name is removed, only its keys go to other names."""

    def __init__(self, names: Iterable[str]) -> None:
        placed = sorted((_point(f"{name}/{number}"), name) for name in names for number in range(POINTS))
        self._points = [point for point, _ in placed]
        self._names = [name for _, name in placed]

    def choose(self, key: str, failures: int) -> str | None:
        """The name for a key; None without names. Each failure leads to another name, until all were tried."""
        start = bisect(self._points, _point(key))
        if failures == 0 and start < len(self._names):
            return self._names[start]
        order = list(dict.fromkeys(chain(self._names[start:], self._names)))
        return order[failures % len(order)] if order else None


def _point(key: str) -> bytes:
    return hashlib.md5(key.encode(), usedforsecurity=False).digest()
