"""Plans moves towards the target of placement, and off containers whose drain is at its limit."""

from __future__ import annotations

from penstock.control.clock import Clock
from services.shard_manager import metrics
from services.shard_manager.leader.liveness import is_gathering
from services.shard_manager.leader.situation import situation_of
from services.shard_manager.leader.view import View
from services.shard_manager.moves.drains import overdue, taken_off
from services.shard_manager.moves.moves import Instruction, Moves, Planned
from services.shard_manager.moves.planner import plan
from services.shard_manager.placement.controller import PlacementController
from services.shard_manager.settings import ShardManagerSettings


class MovePlanner:
    """The leader's loop calls it, one thread at a time."""

    def __init__(
        self, view: View, moves: Moves, placement: PlacementController, settings: ShardManagerSettings, clock: Clock
    ) -> None:
        self._view = view
        self._moves = moves
        self._placement = placement
        self._settings = settings
        self._clock = clock
        self.reset()

    def reset(self) -> None:
        """Forgets the last plan."""
        self._planned_nothing_for: object = None

    def run(self) -> list[Instruction]:
        """Starts moves; returns their DROP orders. Does nothing if nothing changed since a plan without moves."""
        now, moving = self._clock.monotonic(), frozenset(move.shard for move in self._moves)
        with self._view.lock:
            live, dropped, wanted = self._view.live(), self._view.dropped_by_owner(), self._view.wanted_shard_count
            owners = dict(self._view.owners)
            may_place = not self._is_gathering(now) and bool(live)
        target = self._placement.update(situation_of(self._view, self._moves, live), may_place=may_place)
        if target is None:
            return []
        drained = overdue(live, self._clock.now())
        inputs = (self._view.version, target, live.keys(), frozenset(dropped), moving, drained, wanted)
        if inputs == self._planned_nothing_for:
            return []
        room = self._settings.moves_in_flight - len(moving)
        off = taken_off(owners, drained, target.place_of, live, moving, dropped) if drained else []
        busy = moving | {event.shard for event in off}
        others = plan(owners, target, live, busy, dropped, move_limit=room if wanted <= len(owners) else 0)
        events = [*off, *others]
        metrics.moves_planned.inc(sum(isinstance(event, Planned) for event in events))
        self._planned_nothing_for = inputs if not events else None
        return self._moves.handle(events, now)

    def _is_gathering(self, now: float) -> bool:
        """Whether to wait for more containers to join. Otherwise the joins so far are done with."""
        gathers = is_gathering(
            self._view.joined_at,
            now=now,
            gather_seconds=self._settings.gather_seconds,
            gather_limit_seconds=self._settings.gather_limit_seconds,
        )
        if not gathers:
            self._view.joined_at.clear()
        return gathers
