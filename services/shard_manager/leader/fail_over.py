"""Fails silent containers over: declares them lost and gives their shards to others, in one transaction."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from penstock.control.clock import Clock
from penstock.control.logs import logger
from penstock.tasks.ownership import Owner
from services.shard_manager import metrics
from services.shard_manager.leader.liveness import lost
from services.shard_manager.leader.situation import situation_of
from services.shard_manager.leader.view import View
from services.shard_manager.moves.moves import Event, Freed, Instruction, Moves, Recorded
from services.shard_manager.placement.controller import PlacementController
from services.shard_manager.store.owners import Change
from services.shard_manager.store.port import ShardStore

log = logger(__name__)


class FailOver:
    """The leader's loop calls it while it holds `view.writes`."""

    def __init__(
        self,
        store: ShardStore,
        view: View,
        moves: Moves,
        placement: PlacementController,
        clock: Clock,
        *,
        interval_seconds: float,
    ) -> None:
        self._store = store
        self._view = view
        self._moves = moves
        self._placement = placement
        self._clock = clock
        self._interval_seconds = interval_seconds

    def run(self, leader_epoch: int) -> list[Instruction]:
        """Returns the ADD orders to the new owners. Raises Unavailable, Fenced.

        From the choice of the silent containers until the store has decided, their heartbeats are not answered.
        """
        candidates = self._choose_silent()
        if not candidates:
            return []
        heirs = self._choose_heirs(candidates)
        gone, recorded = self._store.fail_over(candidates, heirs, self._interval_seconds, leader_epoch)
        with self._view.lock:
            self._view.mark_lost(gone)
            self._view.failing_over = frozenset()
            self._view.apply_owners(recorded)
        for name in gone:
            metrics.fail_overs.inc()
            log.warning("container lost", container=name, orphans=len(recorded))
        metrics.shards_moved.labels("fail_over").inc(len(recorded))
        return self._start_moves(heirs, recorded)

    def _choose_silent(self) -> dict[str, str]:
        """The silent containers, name to incarnation."""
        with self._view.lock:
            live = self._view.live()
            names = lost(
                live,
                self._view.heard_at,
                listening_since=self._view.listening_since,
                now=self._clock.monotonic(),
                interval_seconds=self._interval_seconds,
            )
            self._view.failing_over = frozenset(names)
        return {name: live[name].incarnation for name in names}

    def _choose_heirs(self, candidates: Collection[str]) -> dict[str, dict[int, Change]]:
        """The new owner of each shard of the candidates, by candidate."""
        survivors = {name: member for name, member in self._view.live().items() if name not in candidates}
        target = self._placement.fail_over(situation_of(self._view, self._moves, survivors))
        return {
            name: {shard: Change(target.place_of(shard), epoch) for shard, epoch in self._view.shards_of(name).items()}
            for name in candidates
        }

    def _start_moves(
        self, heirs: Mapping[str, Mapping[int, Change]], recorded: Mapping[int, Owner]
    ) -> list[Instruction]:
        """Follows the orphans to their new owners; ends the moves that they were in."""
        self._moves.forget_outdated(self._view.epochs())
        changes = {shard: change for inherited in heirs.values() for shard, change in inherited.items()}
        events: list[Event] = []
        for shard, owner in recorded.items():
            if owner.container is not None:
                before = changes[shard].from_epoch
                events.append(Freed(shard, before, owner.container))
                events.append(Recorded(shard, before, owner.epoch, owner.container))
        return self._moves.handle(events, self._clock.monotonic())
