"""The container's lease: it may run tasks until `good_until`, by its own monotonic clock. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lease:
    """`good_until` is counted from when the last answered heartbeat (or store renewal) was *sent*.

    The answering side counts its longer interval from when it received it, which is later: so this lease always
    ends first, whatever the two clocks say.
    """

    good_until: float = -math.inf

    def extended(self, sent_at: float, seconds: float) -> Lease:
        """The lease after an answer to something sent at `sent_at`; answers that come out of order never shorten it."""
        return Lease(max(self.good_until, sent_at + seconds))

    def is_good(self, now: float) -> bool:
        """Whether tasks may run at `now`."""
        return now < self.good_until

    def was_granted(self) -> bool:
        """Whether there ever was one: only then can it have expired."""
        return self.good_until > -math.inf

    def seconds_left(self, now: float) -> float:
        """Seconds until it ends; 0 when it has ended or never was."""
        return max(0.0, self.good_until - now)
