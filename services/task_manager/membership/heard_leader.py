"""The newest leader of a service that a container obeys, and the way back from an epoch that was never a leader's.

No I/O, no clock. Not thread-safe: `container.Container` guards it with its lock.
"""

from __future__ import annotations

from penstock.control.logs import logger

log = logger(__name__)
FORGET_SECONDS = 120.0
"""Longer than the lease of any leader: a former leader has stopped acting long before."""


class HeardLeader:
    """Calls of an older leader than the newest one are refused.

    Where only older ones have called for `FORGET_SECONDS`, the newest epoch is not that of a living leader: a store was
    restored, or the epoch was wrong. Then the container obeys the leader that calls.
    """

    def __init__(self, service: str) -> None:
        self.service = service
        self._refusing_since: float | None = None
        self.newest = 0

    def allows(self, epoch: int, now: float) -> bool:
        """Whether a leader of this epoch is obeyed. A refusal is remembered."""
        if epoch >= self.newest:
            return True
        if self._refusing_since is None:
            self._refusing_since = now
        if now - self._refusing_since < FORGET_SECONDS:
            return False
        log.warning("leader epoch forgotten", service=self.service, forgotten=self.newest, obeys=epoch)
        self.newest, self._refusing_since = epoch, None
        return True

    def follow(self, epoch: int) -> None:
        """The call of this leader, which is allowed, was carried out."""
        self.newest, self._refusing_since = max(epoch, self.newest), None

    @property
    def is_refusing(self) -> bool:
        """Whether an older leader called, and none of the newest epoch since."""
        return self._refusing_since is not None


def refusing(*leaders: HeardLeader) -> tuple[str, ...]:
    """The services of those leaders whose older ones are being refused."""
    return tuple(leader.service for leader in leaders if leader.is_refusing)
