"""Keeps the target of placement up to date: reads what it needs when that is due, and tells what came of it.

Called by the leader's rounds, one at a time. Fail-over places by what is known already: it waits for no read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from penstock.control.clock import Clock
from penstock.control.errors import Unavailable
from penstock.control.logs import logger
from penstock.tasks.loads import JobTasks, TaskLoad
from penstock.tasks.ownership import Member
from penstock.tasks.shards import Sharding
from services.shard_manager import metrics
from services.shard_manager.placement.cell import Rules
from services.shard_manager.placement.needs import Needs, needs_of
from services.shard_manager.placing import (
    Assignment,
    Broken,
    Periods,
    Reason,
    Target,
    hosts_of,
    look_at,
    reason_of_needs,
    reason_to_place,
    target_of,
    to_place_on,
)
from services.shard_manager.settings import ShardManagerSettings
from services.shard_manager.store import ShardStore

log = logger(__name__)


class Situation(NamedTuple):
    """What a round knows: live containers, where shards are or are on their way to (asked when they are placed), how
    they are numbered, and the newest commit of the running table."""

    members: Mapping[str, Member]
    present: Callable[[], Assignment]
    sharding: Sharding
    commit_number: int


class Placer:
    """Not thread-safe. A new leader begins anew."""

    def __init__(self, store: ShardStore, settings: ShardManagerSettings, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._rules = Rules(settings.placement_headroom, settings.placement_band, settings.move_budget)
        self._periods = Periods(settings.replacement_seconds, settings.load_check_seconds)
        self._load_check_seconds = settings.load_check_seconds
        self._job_check_seconds = settings.job_check_seconds
        self.begin()

    def begin(self) -> None:
        """Knows nothing."""
        self._target: Target | None = None
        self._needs: Needs | None = None
        self._jobs: list[JobTasks] = []
        self._told: list[TaskLoad] = []
        self._jobs_of: int | None = None
        self._jobs_read_at = self._loads_read_at = float("-inf")
        self._is_news = False

    @property
    def target(self) -> Target | None:
        """The newest; None before the first."""
        return self._target

    def fail_over(self, situation: Situation) -> Target:
        """A target for the containers that are left, by what was known last; moves nothing that runs for balance."""
        rules = self._rules._replace(move_budget=0)
        return self._place(Reason.FAIL_OVER, self._without_drained(situation), rules)

    def follow(self, situation: Situation, *, may_place: bool) -> Target | None:
        """The target, made anew if there is a reason and it `may_place`; None before the first.

        Raises Unavailable while nothing is known of jobs and loads.
        """
        now, situation = self._clock.monotonic(), self._without_drained(situation)
        reason = reason_to_place(self._target, hosts_of(situation.members), situation.sharding, now, self._periods)
        broken = self._look(situation, is_due=reason in (Reason.TAKEN_OVER, Reason.PERIOD, Reason.SHARDS))
        if reason is None and self._target is not None:
            reason = reason_of_needs(self._target, broken)
        if reason is not None and may_place:
            self._place(reason, situation, self._rules)
        return self._target

    def save(self, leader_epoch: int) -> None:
        """Tells what the newest target is and what people should know, if that is news. Raises Unavailable, Fenced."""
        if self._target is None or not self._is_news:
            return
        at = self._clock.now()
        placements = {name: figures.as_json(at) for name, figures in self._target.figures.items()}
        self._store.save_placement(placements, self._target.alerts, leader_epoch)
        self._is_news = False

    # ---- what placement needs

    def _look(self, situation: Situation, *, is_due: bool) -> Broken:
        """Reads what is due; what the target does not keep to by it."""
        if not self._read(situation, is_due=is_due) or self._target is None:
            return Broken()
        seen = look_at(self._target, situation.members, self._known(situation.sharding), self._rules)
        if seen.alerts != self._target.alerts:
            self._target, self._is_news = replace(self._target, alerts=seen.alerts), True
        return seen.broken

    def _read(self, situation: Situation, *, is_due: bool) -> bool:
        """Whether there is something new. A store that does not answer now is asked again when it is due again."""
        now = self._clock.monotonic()
        loads_due = is_due or now - self._loads_read_at >= self._load_check_seconds
        jobs_due = loads_due or (
            situation.commit_number != self._jobs_of and now - self._jobs_read_at >= self._job_check_seconds
        )
        try:
            if jobs_due:
                self._jobs_read_at = now
                self._jobs = self._store.jobs()
                self._jobs_of = situation.commit_number
            if loads_due:
                self._loads_read_at = now
                self._told = self._store.loads()
        except Unavailable as error:
            if self._needs is None:
                raise
            log.warning("loads not read", error=error.detail)
            return False
        if jobs_due:
            self._needs = needs_of(self._jobs, self._told, situation.sharding)
        return jobs_due

    def _known(self, sharding: Sharding) -> Needs:
        """The newest needs; those of a cell without jobs before the first."""
        if self._needs is None or self._needs.sharding != sharding:
            self._needs = needs_of(self._jobs, self._told, sharding)
        return self._needs

    # ---- placing

    def _without_drained(self, situation: Situation) -> Situation:
        return situation._replace(members=to_place_on(situation.members, self._clock.now()))

    def _place(self, reason: Reason, situation: Situation, rules: Rules) -> Target:
        now = self._clock.monotonic()
        needs = self._known(situation.sharding)
        target = target_of(situation.members, needs, situation.present(), rules, now)
        seconds = self._clock.monotonic() - now
        self._target, self._is_news = target, True
        metrics.placement_seconds.observe(seconds)
        metrics.unplaceable.set(target.unplaceable)
        for dimension, share in target.worst_band.items():
            metrics.worst_band.labels(dimension).set(share)
        log.info(
            "shards placed",
            reason=reason.value,
            moves=len(target.order),
            unplaceable=target.unplaceable,
            settled=target.settled,
            seconds=round(seconds, 3),
        )
        return target
