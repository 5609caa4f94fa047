"""Housekeeping of the leader: alerts about containers, and the removal of containers that were lost long ago."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from penstock.control.clock import Clock
from penstock.control.logs import logger
from penstock.model.alerts import AlertKind
from penstock.tasks.ownership import DRAINING, Member
from services.shard_manager.leader.refusals import refusals
from services.shard_manager.leader.view import View
from services.shard_manager.moves import drains
from services.shard_manager.settings import ShardManagerSettings
from services.shard_manager.store.housekeeping import HousekeepingStore

log = logger(__name__)
_REMOVE_EVERY_SECONDS = 600.0


class Housekeeping:
    """One thread at a time calls `step`, after each round."""

    def __init__(self, store: HousekeepingStore, view: View, settings: ShardManagerSettings, clock: Clock) -> None:
        self._store = store
        self._view = view
        self._clock = clock
        self._patience = timedelta(seconds=settings.drop_retry_seconds)
        self._forget_seconds = settings.forget_lost_seconds
        self._leader_epoch: int | None = None

    def step(self, leader_epoch: int) -> None:
        """One check. Raises Unavailable, Fenced."""
        if leader_epoch != self._leader_epoch:
            self._leader_epoch = leader_epoch
            self._overdue: frozenset[str] | None = None
            self._refusing: frozenset[str] | None = None
            self._drained: frozenset[str] = frozenset()
            self._removed_at = float("-inf")
        with self._view.lock:
            members = dict(self._view.members)
            counts = {name: len(self._view.shards_of(name)) for name in members}
        self._log_drained(members, counts)
        self._sync_alerts(members, counts, leader_epoch)
        self._remove_lost(leader_epoch)

    def _log_drained(self, members: Mapping[str, Member], counts: Mapping[str, int]) -> None:
        is_drained = {name for name, member in members.items() if member.availability == DRAINING and counts[name] == 0}
        for name in sorted(is_drained - self._drained):
            log.info("container drained", container=name)
        self._drained = frozenset(is_drained)

    def _sync_alerts(self, members: Mapping[str, Member], counts: Mapping[str, int], leader_epoch: int) -> None:
        found = drains.overdue_alerts(members, counts, self._clock.now(), self._patience)
        if found.keys() != self._overdue:
            self._store.sync_alerts(AlertKind.DRAIN_OVERDUE, found, leader_epoch)
            self._overdue = frozenset(found)
        with self._view.lock:
            refusing = refusals(self._view.last_heartbeats)
        if refusing.keys() != self._refusing:
            self._store.sync_alerts(AlertKind.LEADER_REFUSED, refusing, leader_epoch)
            self._refusing = frozenset(refusing)

    def _remove_lost(self, leader_epoch: int) -> None:
        now = self._clock.monotonic()
        if now - self._removed_at < min(_REMOVE_EVERY_SECONDS, self._forget_seconds):
            return
        for name in sorted(self._store.remove_lost(self._forget_seconds, leader_epoch)):
            log.info("lost container forgotten", container=name)
        self._removed_at = now
