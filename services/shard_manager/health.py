"""The leader's looks at how well containers are: those that fail are drained, those that are ill are cordoned.

A container that does not take its shards (`failing`) is drained: its shards are moved by DROP and ADD, whether there is
room elsewhere or not. When it does not answer, its lease is not renewed any more after `drain_grace_seconds`, and it is
declared lost in the ordinary way. One that is
ill (`gray`) keeps what it has and gets nothing new. Nobody is put back but by people, who are told by an alert; at
most one container, or a share of them, is set aside at a time, and beyond that there is only the alert.
"""

from __future__ import annotations

import queue
from collections.abc import Collection
from datetime import timedelta

from penstock.control.clock import Clock
from penstock.control.logs import logger
from penstock.tasks.ownership import CORDONED, DRAINING, OPEN, Member, drain_is_over
from services.shard_manager import metrics
from services.shard_manager.failing import Late, judge, most_aside
from services.shard_manager.gray import GrayLimits, Suspect, failing, slow
from services.shard_manager.health_store import CONTAINER_FAILING, CONTAINER_GRAY, HealthStore, Illness
from services.shard_manager.ledger import Ledger
from services.shard_manager.orders import Verb
from services.shard_manager.settings import ShardManagerSettings
from services.shard_manager.view import View

log = logger(__name__)


class Health:
    """`step` is called by one thread at a time, after each round; `answered` by any."""

    def __init__(self, store: HealthStore, view: View, settings: ShardManagerSettings, clock: Clock) -> None:
        self._store = store
        self._view = view
        self._settings = settings
        self._clock = clock
        self._answers: queue.SimpleQueue[tuple[Verb, str, float]] = queue.SimpleQueue()
        self._leader_epoch: int | None = None
        self._ledger = Ledger(settings.gray_window_seconds)
        self._looked_at = float("-inf")
        self._suspects: list[Suspect] = []
        self._aside: frozenset[str] = frozenset()
        self._opened_at: dict[str, float] = {}
        self._told: object = None
        self._nearly_at: dict[str, float] = {}

    def answered(self, verb: Verb, container: str, seconds: float) -> None:
        """A container took so long for an order."""
        metrics.order_seconds.labels(verb).observe(seconds)
        self._answers.put((verb, container, seconds))

    def step(self, leader_epoch: int) -> None:
        """One look. Raises Unavailable, Fenced."""
        if leader_epoch != self._leader_epoch:
            self._begin(leader_epoch)
        now = self._clock.monotonic()
        while not self._answers.empty():
            self._ledger.measured(*self._answers.get(), now)
        with self._view.lock:
            members = dict(self._view.members)
            limit_seconds = self._settings.add_limit_seconds
            late = self._view.untaken.late(limit_seconds)
            self._nearly_at |= dict.fromkeys(self._view.untaken.late(limit_seconds / 2), now)
        live = {name: member for name, member in members.items() if member.live}
        self._give_another_chance(members, now)
        if now - self._looked_at >= self._settings.gray_look_seconds:
            self._ledger.take(self._store.crashed(), now)
            self._suspects = self._suspected(live, now)
            self._looked_at, self._told = now, None
        left = self._drain(late, live, now, leader_epoch) + self._cordon(live, leader_epoch)
        self._settle_alerts(left, leader_epoch)

    def _begin(self, leader_epoch: int) -> None:
        """Knows nothing of what was before."""
        self._leader_epoch = leader_epoch
        self._ledger = Ledger(self._settings.gray_window_seconds)
        self._looked_at = float("-inf")
        self._suspects = []
        self._aside = frozenset()
        self._opened_at = {}
        self._told = None
        self._nearly_at = {}

    def _give_another_chance(self, members: dict[str, Member], now: float) -> None:
        """Who was made open again is not judged by what was before."""
        aside = frozenset(name for name, member in members.items() if member.availability != OPEN)
        opened = self._aside - aside
        for name in opened:
            self._ledger.forget(name)
            self._opened_at[name] = now
        if opened:
            self._suspects = [each for each in self._suspects if each.container not in opened]
            with self._view.lock:
                for name in opened:
                    self._view.untaken.forget(name)
        self._aside = aside

    def _suspected(self, live: dict[str, Member], now: float) -> list[Suspect]:
        """Each container at most once, the surest first."""
        with self._view.lock:
            starts = {name: said.start_seconds for name, said in self._view.said.items() if name in live}
        known = {name: seconds for name, seconds in starts.items() if seconds is not None}
        for seconds in known.values():
            metrics.start_seconds.observe(seconds)
        by_verb = {verb: self._ledger.typical(verb, now) for verb in ("add", "drop")}
        found = [
            *self._failing(live, now),
            *(suspect for what, typical in by_verb.items() for suspect in slow(what, typical)),
            *(suspect for suspect in slow("start", known) if not self._is_new(suspect.container, now)),
        ]
        once: dict[str, Suspect] = {}
        for suspect in found:
            once.setdefault(suspect.container, suspect)
        return list(once.values())

    def _failing(self, live: dict[str, Member], now: float) -> list[Suspect]:
        """All tasks are counted only when somebody could be accused by that: there are a hundred thousand."""
        limits = GrayLimits()
        if self._ledger.most_failing(now) < limits.failing_tasks:
            return []
        return failing(self._ledger.tasks(self._store.counts(), now), live, limits)

    def _is_new(self, container: str, now: float) -> bool:
        """Whether what it says of itself may still be of before it was made open again."""
        opened_at = self._opened_at.get(container)
        return opened_at is not None and now - opened_at < self._settings.gray_window_seconds

    def _drain(self, late: dict[str, Late], live: dict[str, Member], now: float, leader_epoch: int) -> list[Illness]:
        """Those that fail, unless they had to be empty by now anyway. Returns those of which only an alert tells.

        Who was late by half the limit a moment ago is alike: when a fault that all share ends, the last one to recover
        must not be taken for the only one that fails.
        """
        wall_now, limit_seconds = self._clock.now(), self._settings.add_limit_seconds
        due = {name for name, member in live.items() if not drain_is_over(member, wall_now, grace=timedelta())}
        fails = [_fails(name, each) for name, each in late.items() if name in due]
        self._nearly_at = {name: at for name, at in self._nearly_at.items() if now - at < limit_seconds}
        return self._set_aside(fails, due & self._nearly_at.keys(), live, DRAINING, leader_epoch)

    def _cordon(self, live: dict[str, Member], leader_epoch: int) -> list[Illness]:
        """Those that are ill. Returns those of which only an alert tells."""
        ill = [
            Illness(CONTAINER_GRAY, each.container, each.why, each.figures)
            for each in self._suspects
            if each.container in live and each.container not in self._aside
        ]
        return self._set_aside(ill, (), live, CORDONED, leader_epoch)

    def _set_aside(
        self,
        found: list[Illness],
        alike: Collection[str],
        live: dict[str, Member],
        availability: str,
        leader_epoch: int,
    ) -> list[Illness]:
        most = most_aside(len(live), self._settings.set_aside_share)
        verdict = judge([illness.container for illness in found], alike, live.keys() - self._aside, most)
        left = [illness for illness in found if illness.container in verdict.left]
        for illness in found:
            if illness.container not in verdict.set_aside:
                continue
            before = live[illness.container].availability
            if not self._store.set_aside(illness, availability, before=before, most=most, leader_epoch=leader_epoch):
                left.append(illness)
                continue
            self._aside |= {illness.container}
            metrics.set_aside.labels(illness.kind).inc()
            log.warning(
                "container set aside", container=illness.container, availability=availability, reason=illness.message
            )
        return left

    def _settle_alerts(self, left: list[Illness], leader_epoch: int) -> None:
        """Once after each look at the tasks, and when it is others than before."""
        told = ({(illness.kind, illness.container) for illness in left}, self._aside)
        if told != self._told:
            self._store.settle_alerts(left, self._aside, leader_epoch)
            self._told = told


def _fails(container: str, late: Late) -> Illness:
    message = f"it heartbeats and has not taken {late.shards} of its shards for {late.seconds:.0f} s"
    return Illness(CONTAINER_FAILING, container, message, {"shards": late.shards, "seconds": round(late.seconds, 1)})
