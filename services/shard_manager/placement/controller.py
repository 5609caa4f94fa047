"""Keeps the target of placement up to date: reads jobs and loads when they are due, and places shards when triggered.

The leader's rounds call it, one at a time. A fail-over places by what is known already, so it waits for no read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from penstock.control.clock import Clock
from penstock.control.errors import RetryableError
from penstock.control.logs import logger
from penstock.tasks.loads import JobTasks, TaskLoad
from penstock.tasks.ownership import Member
from penstock.tasks.shards import Sharding
from services.shard_manager import metrics
from services.shard_manager.placement.cell import Rules
from services.shard_manager.placement.needs import Needs, needs_of
from services.shard_manager.placement.target import (
    Assignment,
    Target,
    Violations,
    container_facts,
    review,
    target_of,
    usable_members,
)
from services.shard_manager.placement.trigger import Periods, PlacementTrigger, trigger_of_cell, trigger_of_needs
from services.shard_manager.settings import ShardManagerSettings
from services.shard_manager.store.port import ShardStore

log = logger(__name__)
_READ_FIRST = (PlacementTrigger.TAKEN_OVER, PlacementTrigger.PERIOD, PlacementTrigger.SHARDS)


class Situation(NamedTuple):
    """What a round knows of the cell.

    `members`: the live containers; `present`: gives the present place of each shard, its destination while it moves;
    `sharding`: how shards are numbered; `commit_number`: the newest commit of the running table.
    """

    members: Mapping[str, Member]
    present: Callable[[], Assignment]
    sharding: Sharding
    commit_number: int


class PlacementController:
    """Not thread-safe. A new leader calls `reset` first."""

    def __init__(self, store: ShardStore, settings: ShardManagerSettings, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._rules = Rules(settings.placement_headroom, settings.placement_band, settings.move_budget)
        self._periods = Periods(settings.replacement_seconds, settings.load_check_seconds)
        self._load_check_seconds = settings.load_check_seconds
        self._job_check_seconds = settings.job_check_seconds
        self.reset()

    def reset(self) -> None:
        """Forgets everything."""
        self._target: Target | None = None
        self._needs: Needs | None = None
        self._jobs: list[JobTasks] = []
        self._loads: list[TaskLoad] = []
        self._jobs_commit: int | None = None
        self._jobs_read_at = self._loads_read_at = float("-inf")
        self._is_unsaved = False

    @property
    def target(self) -> Target | None:
        """The newest target; None before the first."""
        return self._target

    def fail_over(self, situation: Situation) -> Target:
        """A target for the surviving containers, by the newest known needs; moves no running shard for balance."""
        rules = self._rules._replace(move_budget=0)
        return self._place(PlacementTrigger.FAIL_OVER, self._without_drained(situation), rules)

    def update(self, situation: Situation, *, may_place: bool) -> Target | None:
        """The target, made again if there is a trigger and it `may_place`; None before the first.

        Raises Unavailable while jobs and loads were never read.
        """
        now, situation = self._clock.monotonic(), self._without_drained(situation)
        facts = container_facts(situation.members)
        trigger = trigger_of_cell(self._target, facts, situation.sharding, now, self._periods)
        violations = self._review(situation, is_due=trigger in _READ_FIRST)
        if trigger is None and self._target is not None:
            trigger = trigger_of_needs(self._target, violations)
        if trigger is not None and may_place:
            self._place(trigger, situation, self._rules)
        return self._target

    def save(self, leader_epoch: int) -> None:
        """Writes the figures and alerts of the newest target, if they changed. Raises Unavailable, Fenced."""
        if self._target is None or not self._is_unsaved:
            return
        at = self._clock.now().isoformat()
        placements = {name: {"at": at, **figures} for name, figures in self._target.figures.items()}
        self._store.save_placement(placements, self._target.alerts, leader_epoch)
        self._is_unsaved = False

    # ---- needs

    def _review(self, situation: Situation, *, is_due: bool) -> Violations:
        """Reads what is due; what the target violates by the newest needs."""
        if not self._read(situation, is_due=is_due) or self._target is None:
            return Violations()
        found = review(self._target, situation.members, self._needs_under(situation.sharding), self._rules)
        if found.alerts != self._target.alerts:
            self._target, self._is_unsaved = replace(self._target, alerts=found.alerts), True
        return found.violations

    def _read(self, situation: Situation, *, is_due: bool) -> bool:
        """Whether something was read. If the store does not answer, the next read is one period later."""
        now = self._clock.monotonic()
        loads_due = is_due or now - self._loads_read_at >= self._load_check_seconds
        jobs_due = loads_due or (
            situation.commit_number != self._jobs_commit and now - self._jobs_read_at >= self._job_check_seconds
        )
        try:
            if jobs_due:
                self._jobs_read_at = now
                self._jobs = self._store.jobs()
                self._jobs_commit = situation.commit_number
            if loads_due:
                self._loads_read_at = now
                self._loads = self._store.loads()
        except RetryableError as error:
            if self._needs is None:
                raise
            log.warning("loads not read", error=error.detail)
            return False
        if jobs_due:
            self._needs = needs_of(self._jobs, self._loads, situation.sharding)
        return jobs_due

    def _needs_under(self, sharding: Sharding) -> Needs:
        """The newest needs under a sharding; before the first read those of a cell without jobs."""
        if self._needs is None or self._needs.sharding != sharding:
            self._needs = needs_of(self._jobs, self._loads, sharding)
        return self._needs

    # ---- placing

    def _without_drained(self, situation: Situation) -> Situation:
        return situation._replace(members=usable_members(situation.members, self._clock.now()))

    def _place(self, trigger: PlacementTrigger, situation: Situation, rules: Rules) -> Target:
        now = self._clock.monotonic()
        needs = self._needs_under(situation.sharding)
        target = target_of(situation.members, needs, situation.present(), rules, now)
        self._target, self._is_unsaved = target, True
        _publish(trigger, target, self._clock.monotonic() - now)
        return target


def _publish(trigger: PlacementTrigger, target: Target, seconds: float) -> None:
    metrics.placement_seconds.observe(seconds)
    metrics.unplaceable.set(target.unplaceable)
    for dimension, share in target.worst_band.items():
        metrics.worst_band.labels(dimension).set(share)
    log.info(
        "shards placed",
        trigger=trigger.value,
        moves=len(target.order),
        unplaceable=target.unplaceable,
        finished=target.finished,
        seconds=round(seconds, 3),
    )
