"""How often a token may call: a bucket of calls for each, which fills at a rate. Pure."""

from __future__ import annotations

import math

from penstock.control.errors import TooManyCalls


class Rates:
    """Of one process. `per_second`: calls of each token in the mean; None: any number. `burst`: the most at once."""

    def __init__(self, per_second: float | None, burst: int) -> None:
        self._per_second = per_second
        self._burst = burst
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, token: str, now: float) -> None:
        """Counts a call of the token with this name. `now`: seconds of a monotonic clock.

        Raises TooManyCalls, which counts no call.
        """
        if self._per_second is None:
            return
        left, since = self._left.get(token, (float(self._burst), now))
        left = min(self._burst, left + (now - since) * self._per_second)
        self._left[token] = (left - 1 if left >= 1 else left, now)
        if left < 1:
            raise TooManyCalls(
                f"the token {token} may make {self._per_second:g} calls a second, and {self._burst} at once",
                field="Authorization",
                rule="calls_per_second",
                retry_after_seconds=math.ceil((1 - left) / self._per_second),
            )
