"""How long tasks ran without a lease: the measure of the promise that no task runs twice. Pure."""

from __future__ import annotations


class OverrunMeter:
    """Adds up, sample by sample, the time in which a task ran after the lease under which it was started.

    `past_lease_seconds` begins at the end of the lease. Stopping takes time, so it is seldom zero.
    `double_run_seconds` begins when the time for stopping is over too. No other container may run the task earlier, so
    only these seconds can be a double run. Between two samples the worst is assumed: a task that is seen at the end of
    an interval ran through all of it, even if this process was suspended meanwhile.
    """

    def __init__(self, stop_seconds: float) -> None:
        self._stop_seconds = stop_seconds
        self._sampled_at = float("-inf")
        self.past_lease_seconds = 0.0
        self.double_run_seconds = 0.0

    def sample(self, lease_ended_at: float | None, now: float) -> None:
        """`lease_ended_at`: the earliest end of the leases of tasks that run or have just ended; None: all are good."""
        if lease_ended_at is not None:
            self.past_lease_seconds += self._since(lease_ended_at, now)
            self.double_run_seconds += self._since(lease_ended_at + self._stop_seconds, now)
        self._sampled_at = now

    def _since(self, begin: float, now: float) -> float:
        return max(0.0, now - max(begin, self._sampled_at))
