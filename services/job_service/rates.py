"""How often and how much a token may call: a bucket of calls, or of bytes, for each, which fills at a rate. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, NamedTuple

from penstock.control.errors import TooManyCalls
from penstock.model.jobs import Role


class Rates:
    """Of one process. `per_second`: what each token may use in the mean; None: any number. `burst`: at once."""

    def __init__(self, per_second: float | None, burst: int, of: Literal["calls", "bytes"] = "calls") -> None:
        self._per_second = per_second
        self._burst = burst
        self._of = of
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, token: str, now: float, amount: int = 1) -> None:
        """Counts a call of the token with this name, or its bytes. `now`: seconds of a monotonic clock.

        What is more than the burst passes when the bucket is full, and the token waits for the rest afterwards. Raises
        TooManyCalls, which counts nothing.
        """
        if self._per_second is None:
            return
        left = self._now_left(token, now)
        needed = min(amount, self._burst)
        self._left[token] = (left - amount if left >= needed else left, now)
        if left < needed:
            verb = "make" if self._of == "calls" else "send"
            raise TooManyCalls(
                f"the token {token} may {verb} {self._per_second:g} {self._of} a second, and {self._burst} at once",
                field="Authorization",
                rule=f"{self._of}_per_second",
                retry_after_seconds=math.ceil((needed - left) / self._per_second),
            )

    def charge(self, token: str, now: float, amount: int) -> None:
        """Counts what the token has used already. It waits for it afterwards."""
        if self._per_second is not None:
            self._left[token] = (self._now_left(token, now) - amount, now)

    def _now_left(self, token: str, now: float) -> float:
        left, since = self._left.get(token, (float(self._burst), now))
        return min(self._burst, left + (now - since) * float(self._per_second or 0.0))


class Sizes(NamedTuple):
    """`largest`: bytes of a body, of any role. `by_role`: fewer, for some. `rates`: bytes of bodies of each token."""

    largest: int
    by_role: Mapping[Role, int]
    rates: Rates

    def most_of(self, role: str) -> int:
        """The most bytes of a body that a caller of this role may send."""
        return min([self.largest, *(most for of, most in self.by_role.items() if of == role)])
