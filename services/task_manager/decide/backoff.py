"""How long to back off after failures. Pure: the jitter is computed from the name, so equal inputs give equal times."""

from __future__ import annotations

import hashlib

from services.task_manager.decide.model import ErrorKind, Limits

_JITTER = 0.25
_LARGEST_EXPONENT = 32


def delay_seconds(name: str, count: int, first_seconds: float, cap_seconds: float) -> float:
    """Seconds between the `count`-th crash in a row (from 1) and the next try: 0, first, 2·first, ... up to the cap.

    A hash of the name and the count shortens each delay by up to a quarter, so that tasks which crashed together are
    not restarted together.
    """
    if count <= 1:
        return 0.0
    full = min(cap_seconds, first_seconds * 2.0 ** min(count - 2, _LARGEST_EXPONENT))
    return full * (1.0 - _JITTER * _fraction(f"{name}#{count}"))


def retry_seconds(task_id: str, count: int, kind: ErrorKind, limits: Limits) -> float:
    """`delay_seconds` for a task. A task that cannot run as configured backs off from its first failure on."""
    if kind == "broken_task":
        return delay_seconds(task_id, count + 1, limits.broken_first_seconds, limits.broken_cap_seconds)
    return delay_seconds(task_id, count, limits.crash_first_seconds, limits.crash_cap_seconds)


def _fraction(text: str) -> float:
    digest = hashlib.md5(text.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4], "big") / 2**32
