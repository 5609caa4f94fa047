"""How long tasks ran without a lease: the measure of the promise that no task runs twice. Pure."""

from __future__ import annotations


class OverrunMeter:
    """Adds up, sample by sample, the time in which some task ran after the lease that allowed it.

    `past_lease_seconds` begins at the end of the lease: stopping takes its time, so it is seldom exactly zero.
    `double_run_seconds` begins when the time to stop is over too, which is before anybody else may run the task:
    only these seconds can be a double run. Between two samples the worst is assumed: a task seen at the end of an
    interval ran through all of it, even if this process, and perhaps the task, was stopped meanwhile.
    """

    def __init__(self, stop_seconds: float) -> None:
        self._stop_seconds = stop_seconds
        self._sampled_at = float("-inf")
        self.past_lease_seconds = 0.0
        self.double_run_seconds = 0.0

    def sample(self, lease_ended_at: float | None, now: float) -> None:
        """`lease_ended_at`: of the longest expired lease under which a task runs, or ran until just now; else None."""
        if lease_ended_at is not None:
            self.past_lease_seconds += self._since(lease_ended_at, now)
            self.double_run_seconds += self._since(lease_ended_at + self._stop_seconds, now)
        self._sampled_at = now

    def _since(self, begin: float, now: float) -> float:
        return max(0.0, now - max(begin, self._sampled_at))
