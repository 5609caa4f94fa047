"""Which containers do not take the shards that they own, and what is done about it. Pure.

A container that heartbeats takes a shard when it hears of it, by ADD_SHARD or by the answer to its next heartbeat, and
says so in the heartbeat after that; that its tasks start slowly changes nothing. One whose heartbeats go on without
the shard does not hear, or cannot take it: the shard may run or not, and nobody will run it for sure.
Only heartbeats are evidence. Of a container that says nothing nothing is known here: `liveness` judges it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple


class Missing(NamedTuple):
    """A shard that its owner did not hold, under this epoch, in any heartbeat since the one received at `since`."""

    epoch: int
    since: float


class Late(NamedTuple):
    """`shards` were not taken for so many `seconds`, or longer than the limit."""

    shards: int
    seconds: float


class Untaken:
    """What containers own and do not hold, by their heartbeats. Times are seconds of one monotonic clock."""

    def __init__(self) -> None:
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
        """Takes in a heartbeat. `expected`: what the container owns and is told of; what it drops is on its way."""
        known = self._missing.get(container, {})
        missing: dict[int, Missing] = {}
        for shard, epoch in expected.items():
            if max(held.get(shard, -1), dropped.get(shard, -1)) >= epoch:
                continue
            before = known.get(shard)
            is_same = before is not None and before.epoch == epoch
            missing[shard] = before if before is not None and is_same else Missing(epoch, received_at)
        self._missing[container] = missing
        self._heard_at[container] = received_at

    def forget(self, container: str) -> None:
        """It was lost, or is given another chance."""
        self._missing.pop(container, None)
        self._heard_at.pop(container, None)

    def late(self, limit_seconds: float) -> dict[str, Late]:
        """The containers whose heartbeats lack a shard for the limit or longer, from the first to the last of them."""
        found: dict[str, Late] = {}
        for container, missing in self._missing.items():
            heard_at = self._heard_at[container]
            seconds = [heard_at - each.since for each in missing.values() if heard_at - each.since >= limit_seconds]
            if seconds:
                found[container] = Late(len(seconds), max(seconds))
        return found


class Verdict(NamedTuple):
    """`set_aside`: containers that are to be drained or cordoned; `left`: those of which only an alert tells."""

    set_aside: tuple[str, ...]
    left: tuple[str, ...]


def most_aside(live: int, share: float) -> int:
    """How many containers of so many the machine may set aside at a time: one, or a `share` of them."""
    return max(1, int(live * share))


def judge(found: Collection[str], alike: Collection[str], taking: Collection[str], most: int) -> Verdict:
    """What is done about containers that fail or are ill and are not set aside yet. `alike`: those that are on the way
    there; `taking`: those that take shards.

    None is set aside when more than `most` are found at once, or nearly: then the fault is not theirs, and to drain
    them would only stop what runs. Nor when nobody would be left.
    """
    named = tuple(sorted(found))
    has_heirs = not set(taking) <= set(named)
    is_theirs = len(set(named) | set(alike)) <= most
    return Verdict(named, ()) if named and has_heirs and is_theirs else Verdict((), named)
