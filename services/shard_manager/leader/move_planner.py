"""Plans moves towards the target of placement, and off containers whose drain is at its limit."""

from __future__ import annotations

from services.shard_manager import metrics
from services.shard_manager.leader.liveness import is_gathering
from services.shard_manager.leader.parts import Parts
from services.shard_manager.moves.drains import taken_off, to_be_emptied
from services.shard_manager.moves.moves import Order
from services.shard_manager.moves.planner import plan


class MovePlanner:
    """The leader's loop calls it, one thread at a time."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.reset()

    def reset(self) -> None:
        """Forgets the last plan."""
        self._planned_nothing_for: object = None

    def run(self) -> list[Order]:
        """Starts moves; returns their DROP orders. Does nothing if nothing changed since a plan without moves."""
        view, moves, clock = self._parts.view, self._parts.moves, self._parts.clock
        now, moving = clock.monotonic(), frozenset(move.shard for move in moves)
        with view.lock:
            live, dropped, wanted = view.live(), view.dropped_by_owner(), view.wanted_shard_count
            owners = dict(view.owners)
            may_place = not self._is_gathering(now) and bool(live)
        target = self._parts.placement.update(self._parts.situation(live), may_place=may_place)
        if target is None:
            return []
        drained = to_be_emptied(live, clock.now())
        inputs = (view.version, target, live.keys(), frozenset(dropped), moving, drained, wanted)
        if inputs == self._planned_nothing_for:
            return []
        room = self._parts.settings.moves_in_flight - len(moving)
        off = taken_off(owners, drained, target.place_of, live, moving, dropped) if drained else []
        busy = moving | {event.shard for event in off}
        others = plan(owners, target, live, busy, dropped, move_limit=room if wanted <= len(owners) else 0)
        events = [*off, *others]
        metrics.moves_planned.inc(sum(event.source is not None for event in events))
        self._planned_nothing_for = inputs if not events else None
        return moves.handle(events, now)

    def _is_gathering(self, now: float) -> bool:
        """Whether to wait for more containers to join. Otherwise the joins so far are done with."""
        joined_at, settings = self._parts.view.joined_at, self._parts.settings
        gathers = is_gathering(
            joined_at,
            now=now,
            gather_seconds=settings.gather_seconds,
            gather_limit_seconds=settings.gather_limit_seconds,
        )
        if not gathers:
            joined_at.clear()
        return gathers
