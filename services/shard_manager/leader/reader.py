"""Reads the store into the view: what changed in every round, everything after an election or a break."""

from __future__ import annotations

from penstock.control.clock import Clock
from penstock.control.logs import logger
from services.shard_manager.leader.view import View
from services.shard_manager.store.port import ShardStore

log = logger(__name__)


class CellReader:
    """The leader's loop calls it while it holds `view.writes`."""

    def __init__(self, store: ShardStore, view: View, clock: Clock, *, lease_seconds: float) -> None:
        self._store = store
        self._view = view
        self._clock = clock
        self._lease_seconds = lease_seconds
        self._read_at = float("-inf")

    def read(self, leader_epoch: int) -> bool:
        """Whether everything was read, so that all plans must be forgotten. Raises Unavailable, Fenced.

        The reason is a new term, a break in which this process may not have listened, or another shard count in the
        store: a change whose answer was lost.
        """
        had_break = self._clock.monotonic() - self._read_at > self._lease_seconds
        is_new_term = self._view.leader_epoch != leader_epoch
        takes_over = had_break or is_new_term or not self._read_changes()
        if takes_over:
            self._take_over(leader_epoch)
        self._read_at = self._clock.monotonic()
        return takes_over

    def _take_over(self, leader_epoch: int) -> None:
        cell = self._store.take_over(leader_epoch)
        with self._view.lock:
            self._view.clear()
            self._view.replace_cell(cell)
            self._view.listening_since = self._clock.monotonic()
            self._view.leader_epoch = leader_epoch
        log.info("took over", leader_epoch=leader_epoch, containers=len(cell.members), version=self._view.version)

    def _read_changes(self) -> bool:
        """False when the store has another shard count."""
        cell = self._store.read(self._view.read_up_to)
        if cell.facts.sharding.count != self._view.sharding.count:
            return False
        with self._view.lock:
            self._view.apply_facts(cell.facts)
            self._view.members = cell.members
            self._view.commit_number = cell.commit_number
            self._view.failing_over = frozenset()
            self._view.apply_read(cell.owners)
        return True
