"""What the leader does beside its rounds: it tells of drains that do not end, and forgets containers that are gone."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from penstock.control.clock import Clock
from penstock.control.logs import logger
from penstock.tasks.ownership import DRAINING, Member
from services.shard_manager import drains
from services.shard_manager.settings import ShardManagerSettings
from services.shard_manager.upkeep_store import UpkeepStore
from services.shard_manager.view import View

log = logger(__name__)
_REMOVE_EVERY_SECONDS = 600.0


class Upkeep:
    """`step` is called by one thread at a time, after each round."""

    def __init__(self, store: UpkeepStore, view: View, settings: ShardManagerSettings, clock: Clock) -> None:
        self._store = store
        self._view = view
        self._clock = clock
        self._patience = timedelta(seconds=settings.drop_retry_seconds)
        self._forget_seconds = settings.forget_lost_seconds
        self._leader_epoch: int | None = None

    def step(self, leader_epoch: int) -> None:
        """One look. Raises Unavailable, Fenced."""
        if leader_epoch != self._leader_epoch:
            self._leader_epoch = leader_epoch
            self._told: frozenset[str] | None = None
            self._drained: frozenset[str] = frozenset()
            self._removed_at = float("-inf")
        with self._view.lock:
            members = dict(self._view.members)
            counts = {name: len(self._view.shards_of(name)) for name in members}
        self._tell(members, counts, leader_epoch)
        self._remove(leader_epoch)

    def _tell(self, members: Mapping[str, Member], counts: Mapping[str, int], leader_epoch: int) -> None:
        drained = frozenset(
            name for name, member in members.items() if member.availability == DRAINING and counts[name] == 0
        )
        for name in sorted(drained - self._drained):
            log.info("container drained", container=name)
        self._drained = drained
        found = drains.late(members, counts, self._clock.now(), self._patience)
        if found.keys() != self._told:
            self._store.settle_drains(found, leader_epoch)
            self._told = frozenset(found)

    def _remove(self, leader_epoch: int) -> None:
        now = self._clock.monotonic()
        if now - self._removed_at < min(_REMOVE_EVERY_SECONDS, self._forget_seconds):
            return
        for name in sorted(self._store.remove_lost(self._forget_seconds, leader_epoch)):
            log.info("lost container forgotten", container=name)
        self._removed_at = now
