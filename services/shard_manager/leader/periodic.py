"""Small periodic writes of the leader: the times of heartbeats, and selector slots for jobs."""

from __future__ import annotations

from penstock.control.period import Period
from services.shard_manager.leader.parts import Parts

SLOT_CHECK_SECONDS = 5.0


class PeriodicWrites:
    """The leader's loop calls it after each round."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._seen: object = None
        self._saving = Period(parts.settings.save_heartbeats_seconds)
        self._slots = Period(SLOT_CHECK_SECONDS)

    def run(self, leader_epoch: int) -> None:
        """Writes what is due. Raises Unavailable, Fenced."""
        now = self._parts.clock.monotonic()
        if self._saving.is_due(now):
            self._save_heartbeats(now, leader_epoch)
            self._saving.done()
        if self._slots.is_due(now):
            self._give_slots(leader_epoch)
            self._slots.done()

    def _save_heartbeats(self, monotonic: float, leader_epoch: int) -> None:
        """Writes when containers were last heard of."""
        view = self._parts.view
        with view.lock:
            seconds_ago = {name: monotonic - at for name, at in view.heard_at.items()}
        self._parts.store.save_heartbeats(seconds_ago, leader_epoch)

    def _give_slots(self, leader_epoch: int) -> None:
        """Gives a slot to each selector of a running job that some container meets, if jobs or containers changed."""
        view = self._parts.view
        seen = (view.commit_number, frozenset(member.offers() for member in view.live().values()))
        if seen != self._seen:
            with view.writes:
                self._parts.store.give_slots_to_jobs(leader_epoch)
        self._seen = seen
