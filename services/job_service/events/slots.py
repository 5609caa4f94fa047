"""How many streams a process has, and how many of them a token."""

from __future__ import annotations

import threading
from collections import Counter

from penstock.control.errors import TooManyCalls

RETRY_SECONDS = 15
_SHARE = 4


class Slots:
    """Safe from any thread. `most`: streams at once; a token may have a quarter of them, so that none has all."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._most_of_token = -(-most // _SHARE)
        self._lock = threading.Lock()
        self._of: Counter[str] = Counter()

    def take(self, token: str) -> Slot:
        """Room for a stream of the token with this name, until it is closed. Raises TooManyCalls."""
        with self._lock:
            if self._of.total() >= self._most:
                raise _refusal(f"{self._most} streams of events are open, which is the most of this Job Service")
            if self._of[token] >= self._most_of_token:
                raise _refusal(f"the token {token} has {self._most_of_token} streams of events, which is the most")
            self._of[token] += 1
        return Slot(self, token)

    def give_back(self, token: str) -> None:
        """A stream of the token has ended."""
        with self._lock:
            self._of[token] -= 1
            self._of += Counter()  # forgets tokens without a stream


class Slot:
    """The room of one stream. It is given back once, at the latest when nobody holds it any more: a client may go
    before its stream has begun."""

    def __init__(self, slots: Slots, token: str) -> None:
        self._slots = slots
        self._token: str | None = token

    def close(self) -> None:
        """Gives it back; may be repeated."""
        token, self._token = self._token, None
        if token is not None:
            self._slots.give_back(token)

    def __del__(self) -> None:
        self.close()


def _refusal(told: str) -> TooManyCalls:
    return TooManyCalls(told, field="events", rule="streams", retry_after_seconds=RETRY_SECONDS)
