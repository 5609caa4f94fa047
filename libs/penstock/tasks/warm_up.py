"""When it is known how fast a task works that has just started. Pure."""

from __future__ import annotations

COLD_BATCHES = 2
"""In the first batches with rows of a run, Spark plans, compiles code and loads state."""
WARM_UP_SECONDS = 30.0
"""For so long after its first batch with rows, the JVM of a host interprets and compiles most of what it runs."""


def seconds_to_a_rate(trigger_interval_seconds: float) -> float:
    """So many seconds after its first batch with rows began, a task has finished one that shows how fast it works.

    This holds while rows come and no batch takes longer than the interval.
    """
    begins = max(WARM_UP_SECONDS + trigger_interval_seconds, COLD_BATCHES * trigger_interval_seconds)
    return begins + trigger_interval_seconds
