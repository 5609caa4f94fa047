"""How often the loops of a Task Manager run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Periods:
    """Seconds. `lease`: the length of a lease that the container takes from the store by itself.

    `delta_gap`: the pause after a delta that changed something, so that a burst of commits costs one fetch a gap. The
    first commit of a burst is fetched at once. `report_gap`: the least time between two heartbeats or two reports.
    """

    tick: float = 1.0
    heartbeat: float = 10.0
    retry: float = 2.0
    lease: float = 40.0
    full_fetch: float = 60.0
    delta_wait: float = 20.0
    delta_gap: float = 0.2
    report: float = 2.0
    report_gap: float = 0.2
