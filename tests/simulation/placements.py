"""What must hold of each placement, by what its leader knew: told by the leader as it decides, weighed anew here.

Not by the number of shards that move, which is the search's own affair, but for the budget: what nothing forces moves
for balance. A shard must move when its container is gone, drains, has not what it asks for or was above its capacity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from penstock.model.alerts import AlertKind
from penstock.tasks.ownership import DRAINING, OPEN
from penstock.wire.cluster import ShardOrders
from services.shard_manager.placement import controller
from services.shard_manager.placement.target import Target
from tests.simulation.weighing import Knowledge
from tests.support.memory.store import MemoryStore

TIGHT = 0.6
"""Where a container is fuller than this, others may have had to move on to make room for a shard that fits nowhere."""


class Placements:
    """`complain` is told what does not hold. `budget`: of moves a placement; `most_in_flight`: at once."""

    def __init__(
        self, memory: MemoryStore, complain: Callable[[str], None], *, budget: int, most_in_flight: int
    ) -> None:
        self._newest: Target | None = None
        self._memory = memory
        self._complain = complain
        self._budget = budget
        self._most_in_flight = most_in_flight
        self._asked: list[tuple[Any, tuple[Any, ...]]] = []
        self._dropping: dict[int, int] = {}
        self._taken_off: dict[int, int] = {}
        self._leader_epoch = -1
        self._count = 0

    # ---- each decision

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Until the end of the block every leader says what it places by, and where to."""
        needs_of, target_of = controller.needs_of, controller.target_of

        def asks(jobs: Any, told: Any, sharding: Any) -> Any:
            needs = needs_of(jobs, told, sharding)
            self._asked = [*self._asked[-99:], (needs, (tuple(jobs), tuple(told), sharding))]
            return needs

        def places(members: Any, needs: Any, present: Any, rules: Any, now: float) -> Target:
            target = target_of(members, needs, present, rules, now)
            asked = next(asked for known, asked in reversed(self._asked) if known is needs)
            self.look_at(Knowledge(dict(members), *asked, dict(present)), target, rules.move_budget)
            return target

        controller.needs_of, controller.target_of = asks, places
        try:
            yield
        finally:
            controller.needs_of, controller.target_of = needs_of, target_of

    def look_at(self, known: Knowledge, target: Target, budget: int) -> None:
        """All that is promised of a target."""
        self._newest = target
        self._taken_off |= self._to_be_emptied(known)
        for what in (
            *self._of_shards(known, target),
            *self._of_capacity(known, target),
            *self._of_moves(known, target, min(budget, self._budget)),
        ):
            self._complain(f"placement: {what}")

    def is_done(self) -> bool:
        """Whether the newest target was final when it was made, and every shard is where it should be by it."""
        owners = {shard: owner.container for shard, owner in self._memory.owners.items()}
        return self._newest is not None and self._newest.finished and self._newest.where == owners

    def has_no_place(self, shard: int) -> bool:
        """Whether the newest target has none for a shard, of which people are told."""
        return self._newest is not None and shard not in self._newest.where

    def _of_shards(self, known: Knowledge, target: Target) -> Iterator[str]:
        """Each has a place, or is named; and may be there."""
        alerts = {(alert.kind, alert.subject) for alert in target.alerts}
        is_named = any(kind == AlertKind.UNPLACEABLE for kind, _ in alerts)
        for shard in range(known.sharding.count):
            container = target.where.get(shard)
            if container is None:
                if not is_named:
                    yield f"shard {shard} has no place, and nobody is told"
                continue
            member, is_new = known.members[container], known.present.get(shard) != container
            if member.availability != OPEN and is_new:
                yield f"shard {shard} goes to {container}, which is {member.availability}"
            if member.availability == DRAINING and not is_named:
                yield f"shard {shard} stays on {container}, which drains, and nobody is told"
            if not known.may_be_on(shard, container):
                has = f"{member.region} {dict(member.labels)}"
                yield f"shard {shard} is bound to {sorted(known.bound_to(shard))} and goes to {container} of {has}"
        for job in sorted(set(known.in_vain())):
            if (AlertKind.SELECTOR_UNMET, job) not in alerts:
                yield f"{job} asks for containers in vain, and nobody is told"

    def _of_capacity(self, known: Knowledge, target: Target) -> Iterator[str]:
        """No container is above its capacity less headroom, unless people are told that it is short, which they are
        only if something does not fit."""
        is_short = any(alert.kind == AlertKind.UNPLACEABLE for alert in target.alerts)
        if not is_short:
            for container, dimension in known.overfull(target.where).items():
                yield f"{container} is above its capacity in {dimension}, and nobody is told"
        elif not _is_forced(known):
            yield f"nothing asks for a move and all fits, and people are told that it does not: {target.alerts}"

    def _of_moves(self, known: Knowledge, target: Target, budget: int) -> Iterator[str]:
        moved = _moved(known, target.where)
        if set(target.order) != moved:
            yield f"shards {sorted(moved)} move, and the order of moves has {sorted(target.order)}"
        overfull = known.overfull(known.present_here())
        forced = {shard for shard in moved if not known.may_stay(shard) or known.present[shard] in overfull}
        if _is_forced(known) and known.fullest(target.where) > TIGHT:
            return
        # Of what was taken off an overfull container some may have come back, and go elsewhere for balance in the end.
        spent = 0 if overfull else len(forced)
        if len(moved - forced) > max(0, budget - spent):
            yield f"{len(moved)} shards move, of which {len(forced)} had to, with a budget of {budget}"

    # ---- how moves are carried out

    def took_over(self) -> None:
        """A leader begins with no move under way."""
        self._dropping.clear()

    def ordered(self, verb: str, order: ShardOrders) -> None:
        """A leader tells a container something; what a former one tells is refused. No more shards than may be are on
        their way at once, but for those whose container had to be empty."""
        if verb != "drop" or order.leader_epoch < self._leader_epoch:
            return
        if order.leader_epoch > self._leader_epoch:
            self._leader_epoch = order.leader_epoch
            self._dropping.clear()
        if self._memory.members[order.container].drain_until is not None:
            self._taken_off |= order.shards
        count = self._memory.facts.sharding.count
        self._dropping = self._still(self._dropping)
        self._count = min(self._count, count) if self._dropping else count
        self._dropping |= self._still(dict(order.shards.items() - self._taken_off.items()))
        # Where their number is multiplied meanwhile the parts of a shard that is on its way count as one.
        if len({shard % self._count for shard in self._dropping}) > self._most_in_flight:
            self._complain(f"{len(self._dropping)} shards are on their way at once: {sorted(self._dropping)}")

    def _to_be_emptied(self, known: Knowledge) -> dict[int, int]:
        """Shard to epoch of those that leave a container whose drain has a limit, also when that is called off soon.
        One whose limit has come is not among the members."""
        staying = {name for name, member in known.members.items() if member.drain_until is None}
        return {shard: owner.epoch for shard, owner in self._memory.owners.items() if owner.container not in staying}

    def _still(self, dropping: Mapping[int, int]) -> dict[int, int]:
        """Those of shard to epoch whose owner is the one of that epoch."""
        owners = self._memory.owners
        return {shard: epoch for shard, epoch in dropping.items() if shard in owners and owners[shard].epoch == epoch}


def _is_forced(known: Knowledge) -> bool:
    """Whether some shard has no place as it is."""
    return bool(known.overfull(known.present_here())) or any(
        not known.may_stay(shard) for shard in range(known.sharding.count)
    )


def _moved(known: Knowledge, where: Mapping[int, str]) -> set[int]:
    """Shards that leave a container which is there."""
    return {shard for shard, container in known.present_here().items() if where.get(shard) != container}
