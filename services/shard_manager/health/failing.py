"""Finds containers that do not take the shards that they own, and decides what is done about them. Pure.

A container learns of a shard by ADD_SHARD or by the answer to its next heartbeat. It takes the shard and says so in the
heartbeat after that; slow task starts do not delay this. A container whose heartbeats go on without the shard does not
hear, or cannot take it. Then nobody knows whether the shard runs.

Only heartbeats are evidence. `leader.liveness` judges a silent container. A long gap between two heartbeats says little
about the container, which may not have reached the leader meanwhile. So a gap counts at most `_LONGEST_GAP_SHARE` of
the limit. This also keeps containers with a common fault close together: when the first is late, the others are nearly.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

_LONGEST_GAP_SHARE = 0.4
_NEARLY_SHARE = 0.5


class Missing(NamedTuple):
    """A shard that its owner did not hold, under this epoch, in any heartbeat for `seconds`."""

    epoch: int
    seconds: float


class Late(NamedTuple):
    """`shards` were not taken for the limit or longer, the first of them for `seconds`."""

    shards: int
    seconds: float


class UntakenShards:
    """The shards that containers own and do not hold, by their heartbeats. Times are monotonic seconds."""

    def __init__(self, limit_seconds: float) -> None:
        self._limit_seconds = limit_seconds
        self._missing: dict[str, dict[int, Missing]] = {}
        self._heard_at: dict[str, float] = {}

    def hear(
        self,
        container: str,
        held: Mapping[int, int],
        dropped: Mapping[int, int],
        expected: Mapping[int, int],
        received_at: float,
    ) -> None:
        """Applies a heartbeat. `expected`: the shards in the answers to its heartbeats."""
        gap = received_at - self._heard_at.get(container, received_at)
        counted = min(gap, self._limit_seconds * _LONGEST_GAP_SHARE)
        known = self._missing.get(container, {})
        missing: dict[int, Missing] = {}
        for shard, epoch in expected.items():
            if max(held.get(shard, -1), dropped.get(shard, -1)) >= epoch:
                continue
            before = known.get(shard)
            is_same = before is not None and before.epoch == epoch
            missing[shard] = Missing(epoch, before.seconds + counted if before is not None and is_same else 0.0)
        self._missing[container] = missing
        self._heard_at[container] = received_at

    def forget(self, container: str) -> None:
        """Forgets a container that was lost, or that an operator opened again."""
        self._missing.pop(container, None)
        self._heard_at.pop(container, None)

    def late(self) -> dict[str, Late]:
        """The containers whose heartbeats lacked a shard for the limit or longer."""
        return self._missing_for(self._limit_seconds)

    def nearly_late(self) -> frozenset[str]:
        """The containers whose heartbeats lacked a shard for half the limit or longer."""
        return frozenset(self._missing_for(self._limit_seconds * _NEARLY_SHARE))

    def _missing_for(self, seconds: float) -> dict[str, Late]:
        found: dict[str, Late] = {}
        for container, missing in self._missing.items():
            late = [each.seconds for each in missing.values() if each.seconds >= seconds]
            if late:
                found[container] = Late(len(late), max(late))
        return found


def most_aside(live: int, share: float) -> int:
    """How many of `live` containers the Shard Manager may set aside at a time: a `share` of them, at least one."""
    return max(1, int(live * share))


def may_set_aside(found: Collection[str], nearly: Collection[str], taking: Collection[str], most: int) -> bool:
    """Whether the faulty containers `found` are set aside, or only get an alert.

    `nearly`: containers that show the same fault, but not for long enough; `taking`: containers that take shards. None
    is set aside when more than `most` show the fault: then they are not its cause, and to drain them would only stop
    running tasks. None is set aside either when no container that takes shards would be left.
    """
    has_heirs = not set(taking) <= set(found)
    is_their_fault = len({*found, *nearly}) <= most
    return has_heirs and is_their_fault
