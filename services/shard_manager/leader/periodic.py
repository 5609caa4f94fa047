"""Small periodic writes of the leader: the times of heartbeats, and selector slots for jobs."""

from __future__ import annotations

from datetime import timedelta

from penstock.control.clock import Clock
from services.shard_manager.leader.view import View
from services.shard_manager.store.port import ShardStore

SLOT_CHECK_SECONDS = 5.0


class HeartbeatTimes:
    """Writes every few seconds when containers were last heard of, for people."""

    def __init__(self, store: ShardStore, view: View, clock: Clock, *, period_seconds: float) -> None:
        self._store = store
        self._view = view
        self._clock = clock
        self._period_seconds = period_seconds
        self._saved_at = float("-inf")

    def run(self, leader_epoch: int) -> None:
        """Writes if the period has passed. Raises Unavailable, Fenced."""
        monotonic, now = self._clock.monotonic(), self._clock.now()
        if monotonic - self._saved_at < self._period_seconds:
            return
        with self._view.lock:
            heard_at = {name: now - timedelta(seconds=monotonic - at) for name, at in self._view.heard_at.items()}
        self._store.save_heartbeats(heard_at, leader_epoch)
        self._saved_at = monotonic


class SelectorSlots:
    """Gives a slot to each selector of a running job that some container meets, within a few seconds."""

    def __init__(self, store: ShardStore, view: View, clock: Clock) -> None:
        self._store = store
        self._view = view
        self._clock = clock
        self._seen: object = None
        self._checked_at = float("-inf")

    def run(self, leader_epoch: int) -> None:
        """Asks the store if jobs or containers changed since the last check. Raises Unavailable, Fenced."""
        now = self._clock.monotonic()
        if now - self._checked_at < SLOT_CHECK_SECONDS:
            return
        seen = (self._view.commit_number, frozenset(member.offers() for member in self._view.live().values()))
        if seen != self._seen:
            with self._view.writes:
                self._store.give_slots_to_jobs(leader_epoch)
        self._seen, self._checked_at = seen, now
