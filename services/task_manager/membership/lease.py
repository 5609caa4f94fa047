"""The container's lease: it may run tasks until `good_until`, by its own monotonic clock. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lease:
    """`good_until` counts from the time the last answered heartbeat (or store renewal) was *sent*.

    The answering side waits for a longer interval, and counts it from when it received the heartbeat, which is later.
    So this lease ends first, whatever the two clocks show.
    """

    good_until: float = -math.inf

    def extended(self, sent_at: float, seconds: float) -> Lease:
        """The lease after an answer to a message sent at `sent_at`. Answers that come out of order never shorten it."""
        return Lease(max(self.good_until, sent_at + seconds))

    def is_good(self, now: float) -> bool:
        """Whether tasks may run at `now`."""
        return now < self.good_until

    def was_granted(self) -> bool:
        """Whether a lease was ever granted: only then can it have expired."""
        return self.good_until > -math.inf

    def seconds_left(self, now: float) -> float:
        """Seconds until the lease ends; 0 when it has ended or was never granted."""
        return max(0.0, self.good_until - now)
