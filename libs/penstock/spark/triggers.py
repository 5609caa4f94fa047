"""How often a task's query is triggered. Pure."""

from __future__ import annotations

import hashlib

# The first trigger finishes the batch that is pending; the next one never comes.
FINISH_TRIGGER = "3650 days"
_JITTER = 0.05


def trigger_interval(seconds: float, task_id: str) -> str:
    """Spark's text for a task's own interval: up to 5 % shorter than asked, always the same for the same task.

    Spark fires equal intervals at the same moment of the clock, all tasks at once.
    """
    share = int.from_bytes(hashlib.md5(task_id.encode(), usedforsecurity=False).digest()[:4], "big") / 2**32
    return f"{round(seconds * (1 - _JITTER * share) * 1000)} milliseconds"
