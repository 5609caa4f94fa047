"""When the hosts of tasks of given-up shards are killed. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping


class ShardDeadlines:
    """Deadlines by shard. A deadline holds until no task of its shard runs."""

    def __init__(self) -> None:
        self._deadlines: dict[int, float] = {}

    def dropped(self, shard: int, kill_at: float) -> None:
        """The shard was dropped with this deadline, which replaces an earlier one."""
        self._deadlines[shard] = kill_at

    def advance(self, shards: Iterable[int], kill_at: float) -> None:
        """These shards end by `kill_at`; earlier deadlines stay."""
        for shard in shards:
            self._deadlines[shard] = min(kill_at, self._deadlines.get(shard, math.inf))

    def of(self, busy_shards: Collection[int]) -> Mapping[int, float]:
        """The deadlines of shards of which tasks run; the others are forgotten."""
        self._deadlines = {shard: at for shard, at in self._deadlines.items() if shard in busy_shards}
        return self._deadlines

    def reshard(self, moved: Iterable[tuple[int, int]]) -> None:
        """Tasks moved from an old to a new shard: each new shard has the earliest deadline of its tasks."""
        before, self._deadlines = self._deadlines, {}
        for old, new in moved:
            if old in before:
                self.advance([new], before[old])
