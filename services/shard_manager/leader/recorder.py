"""Records new owners and new shard counts in the store."""

from __future__ import annotations

from penstock.control.clock import Clock
from penstock.control.logs import logger
from services.shard_manager import metrics
from services.shard_manager.leader.view import View
from services.shard_manager.moves.drains import overdue
from services.shard_manager.moves.moves import Instruction, Moves, Recorded
from services.shard_manager.moves.planner import destination_of
from services.shard_manager.moves.resharding import is_due
from services.shard_manager.placement.target import Target
from services.shard_manager.store.owners import Change
from services.shard_manager.store.port import ShardStore

log = logger(__name__)


class Recorder:
    """The leader's loop calls it while it holds `view.writes`."""

    def __init__(self, store: ShardStore, view: View, moves: Moves, clock: Clock) -> None:
        self._store = store
        self._view = view
        self._moves = moves
        self._clock = clock

    def record_owners(self, target: Target | None, leader_epoch: int) -> list[Instruction]:
        """Writes the new owners of the shards that nobody runs; returns the ADD orders. Raises Unavailable, Fenced."""
        changes = self._changes(target)
        if not changes:
            return []
        recorded = self._store.record(changes, leader_epoch)
        with self._view.lock:
            self._view.apply_owners(recorded)
        metrics.shards_moved.labels("placement").inc(len(recorded))
        log.info("shards moved", shards=len(recorded), version=self._view.version)
        events = [
            Recorded(shard, changes[shard].from_epoch, owner.epoch, owner.container)
            for shard, owner in recorded.items()
        ]
        return self._moves.handle(events, self._clock.monotonic())

    def reshard(self, leader_epoch: int) -> bool:
        """Changes the number of shards, if another one is wanted and no shard moves. Raises Unavailable, Fenced.

        With no move there is no order whose answer could be taken for one about a shard of the new count.
        """
        with self._view.lock:
            owners, wanted = self._view.owners, self._view.wanted_shard_count
            dropped, before = self._view.dropped_by_owner(), len(owners)
        if wanted == before or len(self._moves) or not is_due(owners, wanted, dropped):
            return False
        cell = self._store.reshard(wanted, leader_epoch)
        with self._view.lock:
            self._view.replace_cell(cell)
        log.info("shard count changed", shards=len(cell.owners), before=before, version=self._view.version)
        return True

    def _changes(self, target: Target | None) -> dict[int, Change]:
        """Each shard to its planned destination; to the target's if that takes no shards; else to nobody."""
        live = self._view.live()
        takers = live.keys() - overdue(live, self._clock.now())
        changes: dict[int, Change] = {}
        for move in self._moves.to_record():
            place = None if target is None else target.place_of(move.shard)
            changes[move.shard] = Change(destination_of(move.destination, place, takers), move.epoch)
        return changes
