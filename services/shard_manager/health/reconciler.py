"""Checks containers after each round: drains those that do not take their shards, and cordons outliers.

A container that does not take its shards (`failing`) is drained: its shards move by DROP and ADD, with or without room
elsewhere. If it does not answer either, its lease is not renewed after `drain_grace_seconds`, and it is declared lost.
An outlier (`outliers`) keeps its shards and gets no new ones. So does a container whose heartbeats come to this leader
for long while its reports do not. Only people open a container again; an alert tells them.
At most one container, or a share of them, is set aside at a time. Beyond that there are only alerts.
"""

from __future__ import annotations

import queue
from collections.abc import Collection, Mapping
from datetime import timedelta

from penstock.control.clock import Clock
from penstock.control.logs import logger
from penstock.tasks.ownership import CORDONED, DRAINING, OPEN, Member, drain_is_over
from services.shard_manager import metrics
from services.shard_manager.health.failing import Late, may_set_aside, most_aside
from services.shard_manager.health.failure_stats import FailureStats
from services.shard_manager.health.faults import Fault, fault_of_failing, fault_of_reports
from services.shard_manager.health.outliers import FAILING_TASKS, outliers_by_failures, outliers_by_speed
from services.shard_manager.leader.view import View
from services.shard_manager.moves.moves import Verb
from services.shard_manager.settings import ShardManagerSettings
from services.shard_manager.store.health import HealthStore

log = logger(__name__)


class HealthReconciler:
    """One thread at a time calls `step`, after each round; any thread calls `order_answered`."""

    def __init__(self, store: HealthStore, view: View, settings: ShardManagerSettings, clock: Clock) -> None:
        self._store = store
        self._view = view
        self._settings = settings
        self._clock = clock
        self._answers: queue.SimpleQueue[tuple[Verb, str, float]] = queue.SimpleQueue()
        self._reset(None)

    def _reset(self, leader_epoch: int | None) -> None:
        """Forgets what an earlier term found."""
        self._leader_epoch: int | None = leader_epoch
        self._stats = FailureStats(self._settings.outlier_window_seconds)
        self._checked_at = float("-inf")
        self._outliers: list[Fault] = []
        self._report_ages: dict[str, float] = {}
        self._beats_since: dict[str, float] = {}
        self._aside: frozenset[str] = frozenset()
        self._opened_at: dict[str, float] = {}
        self._synced_alerts: object = None
        self._nearly_late_at: dict[str, float] = {}

    def order_answered(self, verb: Verb, container: str, seconds: float) -> None:
        """Notes how long a container took for an order."""
        metrics.order_seconds.labels(verb).observe(seconds)
        self._answers.put((verb, container, seconds))

    def step(self, leader_epoch: int) -> None:
        """One check of all containers. Raises Unavailable, Fenced."""
        if leader_epoch != self._leader_epoch:
            self._reset(leader_epoch)
        now = self._clock.monotonic()
        while not self._answers.empty():
            self._stats.add_time(*self._answers.get(), now)
        with self._view.lock:
            members = dict(self._view.members)
            late = self._view.untaken.late()
            self._nearly_late_at |= dict.fromkeys(self._view.untaken.nearly_late(), now)
            heard_at = dict(self._view.heard_at)
        self._beats_since = {
            name: self._beats_since.get(name, now)
            for name, at in heard_at.items()
            if now - at <= self._settings.fail_over_seconds
        }
        live = {name: member for name, member in members.items() if member.live}
        self._forgive_opened(members, now)
        if now - self._checked_at >= self._settings.outlier_check_seconds:
            self._stats.add_crashes(self._store.crashed(), now)
            self._outliers = self._find_outliers(live, now)
            self._report_ages = self._store.report_ages()
            self._checked_at, self._synced_alerts = now, None
        only_alert = self._drain(late, live, now, leader_epoch) + self._cordon(live, leader_epoch)
        only_alert += self._cordon_silent(live, now, leader_epoch)
        self._sync_alerts(only_alert, leader_epoch)

    def _forgive_opened(self, members: Mapping[str, Member], now: float) -> None:
        """Forgets the past of containers that were opened again."""
        aside = frozenset(name for name, member in members.items() if member.availability != OPEN)
        opened = self._aside - aside
        for name in opened:
            self._stats.forget(name)
            self._opened_at[name] = now
        if opened:
            self._outliers = [each for each in self._outliers if each.container not in opened]
            self._report_ages = {name: age for name, age in self._report_ages.items() if name not in opened}
            with self._view.lock:
                for name in opened:
                    self._view.untaken.forget(name)
        self._aside = aside

    # ---- outliers

    def _find_outliers(self, live: Mapping[str, Member], now: float) -> list[Fault]:
        """Each container at most once, with the strongest evidence."""
        found = [*self._by_failures(live, now)]
        for verb in ("add", "drop"):
            found += outliers_by_speed(verb, self._stats.typical(verb, now))
        slow_starts = outliers_by_speed("start", self._start_seconds(live))
        found += [each for each in slow_starts if not self._was_just_opened(each.container, now)]
        once: dict[str, Fault] = {}
        for outlier in found:
            once.setdefault(outlier.container, outlier)
        return list(once.values())

    def _by_failures(self, live: Mapping[str, Member], now: float) -> list[Fault]:
        """Counts all tasks, of which there may be 100,000, only if some container has enough failing ones."""
        if self._stats.most_failing_tasks(now) < FAILING_TASKS:
            return []
        return outliers_by_failures(self._stats.tasks(self._store.counts(), now), live)

    def _start_seconds(self, live: Collection[str]) -> dict[str, float]:
        """The median task start of each container, by its last heartbeat."""
        with self._view.lock:
            starts = {name: last.start_seconds for name, last in self._view.last_heartbeats.items() if name in live}
        known = {name: seconds for name, seconds in starts.items() if seconds is not None}
        for seconds in known.values():
            metrics.start_seconds.observe(seconds)
        return known

    def _was_just_opened(self, container: str, now: float) -> bool:
        """Whether the start times that a container reports may date from before it was opened again."""
        opened_at = self._opened_at.get(container)
        return opened_at is not None and now - opened_at < self._settings.outlier_window_seconds

    # ---- setting aside

    def _drain(
        self, late: Mapping[str, Late], live: Mapping[str, Member], now: float, leader_epoch: int
    ) -> list[Fault]:
        """Drains containers that do not take their shards; returns the faults that only get an alert.

        A container whose drain is over is left out. One that was nearly late within the limit counts as having the same
        fault: when a common fault ends, the last container to recover must not be taken for the only faulty one.
        """
        wall_now, limit_seconds = self._clock.now(), self._settings.add_limit_seconds
        due = {name for name, member in live.items() if not drain_is_over(member, wall_now, grace=timedelta())}
        faults = [fault_of_failing(name, each) for name, each in late.items() if name in due]
        self._nearly_late_at = {name: at for name, at in self._nearly_late_at.items() if now - at < limit_seconds}
        return self._set_aside(faults, due & self._nearly_late_at.keys(), live, DRAINING, leader_epoch)

    def _cordon(self, live: Mapping[str, Member], leader_epoch: int) -> list[Fault]:
        """Cordons outliers; returns the faults that only get an alert."""
        faults = [each for each in self._outliers if each.container in live and each.container not in self._aside]
        return self._set_aside(faults, (), live, CORDONED, leader_epoch)

    def _cordon_silent(self, live: Mapping[str, Member], now: float, leader_epoch: int) -> list[Fault]:
        """Cordons containers without reports for long; returns the faults that only get an alert.

        When many have none, the Task Service or the way to it is the cause, and none is cordoned. Neither is one whose
        heartbeats have not come to this leader for as long: it lives by its row in the store. It may reach nobody, or
        be of a release before this one.
        """
        settings = self._settings
        old = {
            name: age
            for name, age in self._report_ages.items()
            if name in live and name not in self._aside and age > settings.reports_old_seconds
        }
        beats = {name: now - since for name, since in self._beats_since.items()}
        found = {name: fault_of_reports(name, age, beats=name in beats) for name, age in old.items()}
        long = {name for name, age in old.items() if min(age, beats.get(name, 0.0)) > settings.reports_failing_seconds}
        faults = [fault for name, fault in found.items() if name in long]
        only_alert = [fault for name, fault in found.items() if name not in long]
        return only_alert + self._set_aside(faults, old.keys(), live, CORDONED, leader_epoch)

    def _set_aside(
        self,
        faults: list[Fault],
        nearly: Collection[str],
        live: Mapping[str, Member],
        availability: str,
        leader_epoch: int,
    ) -> list[Fault]:
        most = most_aside(len(live), self._settings.set_aside_share)
        if not may_set_aside([fault.container for fault in faults], nearly, live.keys() - self._aside, most):
            return faults
        only_alert = []
        for fault in faults:
            before = live[fault.container].availability
            if not self._store.set_aside(fault, availability, before=before, most=most, leader_epoch=leader_epoch):
                only_alert.append(fault)
                continue
            self._aside |= {fault.container}
            metrics.set_aside.labels(fault.kind).inc()
            log.warning("container set aside", container=fault.container, availability=availability, why=fault.message)
        return only_alert

    def _sync_alerts(self, only_alert: list[Fault], leader_epoch: int) -> None:
        """Writes the alerts after each check of outliers, and when they changed."""
        wanted = ({(fault.kind, fault.container) for fault in only_alert}, self._aside)
        if wanted != self._synced_alerts:
            self._store.sync_alerts(only_alert, self._aside, leader_epoch)
            self._synced_alerts = wanted
