"""The container: what it owns, wants and runs, behind one lock. Every part of the Task Manager meets here.

Entry points only note what they are told and wake the loop; `tick`, called by one thread, decides and acts. It
takes the lock to decide and lets go of it to act, so that a slow host can never hold up the lease.
Every entry point first looks whether the lease has run out: after a pause of the whole process nothing that waited
in a queue can come before that.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from penstock.control.clock import Clock
from penstock.control.errors import Unavailable
from penstock.control.logs import logger
from penstock.spark.channel import Event
from penstock.tasks.shards import Sharding
from penstock.tasks.work import HostWork
from penstock.wire.cluster import (
    HeartbeatAnswer,
    HeartbeatRequest,
    ShardAnswers,
    ShardOrders,
    TaskReportBatch,
)
from penstock.wire.redistributions import RedistributionAnswer
from services.task_manager.actions import Action
from services.task_manager.catalog import Catalog, stops_jobs
from services.task_manager.effects import apply
from services.task_manager.host_pool import HostPool
from services.task_manager.lease_news import LeaseNews
from services.task_manager.model import Limits, TaskView, WantedTask
from services.task_manager.overrun import OverrunMeter
from services.task_manager.ports import Hosts, StoredShards
from services.task_manager.reconcile import Wanted, reconcile
from services.task_manager.reporting import skews, task_reports, told_loads
from services.task_manager.state import State
from services.task_manager.tenure import Tenure
from services.task_manager.views import Identity, Summary
from services.task_manager.works import place, refuse_used_generation

log = logger(__name__)


class Container:
    """Thread-safe. `wake` and `heartbeat_due` are events that loops wait for and clear."""

    def __init__(
        self, identity: Identity, limits: Limits, hosts: Hosts, clock: Clock, new_incarnation: Callable[[], str]
    ) -> None:
        self._identity = identity
        self._limits = limits
        self._clock = clock
        self._changed = threading.Condition()
        self._state = State(identity.container, limits)
        self._pool = HostPool(hosts, self.host_event, self._host_exited)
        self._lease_news = LeaseNews()
        self._meter = OverrunMeter(limits.lease_stop_seconds)
        self._tenure = Tenure(identity.container, new_incarnation)
        self._catalog: Catalog | None = None
        self._wanted: Mapping[str, WantedTask] = {}
        self._wanted_of: tuple[Catalog | None, Mapping[int, int]] = (None, {})
        self._announced: object = None
        self._shutting_down = False
        self.wake = threading.Event()
        self.heartbeat_due = threading.Event()
        self.report_due = threading.Event()

    # ---- what the world says: specs

    def take_specs(self, catalog: Catalog) -> None:
        """The newest catalog."""
        with self._changed:
            catalog = catalog.under(self._tenure.ownership.sharding)
            before, self._catalog = self._catalog, catalog
        if before is not catalog:
            log.info("specs changed", commit_number=catalog.commit_number, jobs=len(catalog.templates))
            self.wake.set()
            if stops_jobs(before, catalog):
                # Somebody may be waiting to hear that no task of them runs here, also where none did.
                self.report_due.set()

    def sharding(self) -> Sharding | None:
        """How tasks are shared out to the container's shards; None while nobody said."""
        with self._changed:
            return self._tenure.ownership.sharding

    # ---- what the world says: shards and lease

    def heartbeat_request(self) -> HeartbeatRequest | None:
        """The next heartbeat; None while tasks of a former lease still stop: a new life begins empty."""
        with self._changed:
            self._check_lease(self._clock.monotonic())
            if self._of_former_leases():
                return None
            start_seconds = self._state.starts.typical_seconds(self._clock.monotonic())
            life, shard_count = self._tenure.incarnation, self._tenure.ownership.shard_count
            return self._identity.heartbeat(life, self._held(), self._dropped(), shard_count, start_seconds)

    def heartbeat_answered(self, request: HeartbeatRequest, answer: HeartbeatAnswer, sent_at: float) -> None:
        """The Shard Manager answered a heartbeat that was sent at `sent_at` of this container's clock."""
        with self._changed:
            now = self._clock.monotonic()
            if not self._is_current(request.incarnation, now):
                return
            if answer.known:
                owned = StoredShards(answer.shards, answer.version, answer.sharding, answer.commit_number)
                told = request.dropped if request.shard_count == answer.shard_count else {}
                self._tenure.joined(owned.commit_number)
                self._grant(sent_at, answer.lease_seconds, owned, told, now)
            else:
                self._begin_anew("declared lost or replaced", now)
        self.wake.set()

    def lease_stored(self, incarnation: str, stored: StoredShards, sent_at: float, seconds: float) -> None:
        """The container renewed its own lease row, beginning at `sent_at`, and read the stored mapping."""
        with self._changed:
            now = self._clock.monotonic()
            if self._is_current(incarnation, now):
                self._tenure.joined(stored.commit_number)
                self._grant(sent_at, seconds, stored, {}, now)
        self.wake.set()

    def lease_refused(self, incarnation: str) -> None:
        """The store says that this life was declared lost or replaced."""
        with self._changed:
            now = self._clock.monotonic()
            if self._is_current(incarnation, now):
                self._begin_anew("declared lost or replaced by the store", now)
        self.wake.set()

    def was_granted(self, incarnation: str) -> bool:
        """Whether this life has a lease, good or not yet known to have run out."""
        with self._changed:
            return incarnation == self._tenure.incarnation and self._tenure.lease.was_granted()

    # ---- what the world says: orders

    def drop(self, order: ShardOrders) -> ShardAnswers:
        """DROP_SHARD: the tasks that will be stopped, by shard; `await_stopped` waits for it. Raises Conflict."""
        with self._changed:
            now = self._clock.monotonic()
            self._check_lease(now)
            obeyed = self._tenure.obey_drop(order)
            for shard in obeyed:
                self._state.deadlines[shard] = now + order.deadline_seconds
            tasks = {shard: tuple(self._state.tasks_in(frozenset({shard}))) for shard in sorted(obeyed)}
        self.wake.set()
        return ShardAnswers(tasks=tasks)

    def await_stopped(self, order: ShardOrders, dropped: ShardAnswers, timeout_seconds: float) -> ShardAnswers:
        """Those shards of a DROP of which nothing runs any more; waits until that is all of them, or time is over.

        None of them when the numbers of shards mean something else by then: heartbeats say what was dropped.
        """
        shards = frozenset(dropped.tasks)
        with self._changed:
            self._changed.wait_for(lambda: not self._state.tasks_in(shards), timeout_seconds)
            if self._tenure.ownership.shard_count != order.shard_count:
                return ShardAnswers(tasks={})
            busy = {self._state.tasks[task_id].shard for task_id in self._state.tasks_in(shards)}
        return ShardAnswers(tasks={shard: tasks for shard, tasks in dropped.tasks.items() if shard not in busy})

    def add(self, order: ShardOrders) -> ShardAnswers:
        """ADD_SHARD: the tasks that will be started, by shard. Raises Conflict, also without a lease."""
        with self._changed:
            now = self._clock.monotonic()
            self._check_lease(now)
            obeyed = self._tenure.obey_add(order, now)
            catalog = self._catalog
            tasks = {shard: catalog.tasks_of(shard) if catalog else () for shard in sorted(obeyed)}
        self.wake.set()
        return ShardAnswers(tasks=tasks)

    # ---- what the world says: work on checkpoints

    def work(self, request: HostWork, wait_seconds: float) -> RedistributionAnswer:
        """Begins a work unless it has begun; how far it is after waiting so long for its end.

        Raises Unavailable without a lease, Conflict for a generation that the job has already, or
        for the removal of one that is in use.
        """
        with self._changed:
            now = self._clock.monotonic()
            self._check_lease(now)
            if not self._tenure.lease.is_good(now) or self._shutting_down:
                raise Unavailable("this container has no lease, or ends")
            here = [task.spec for task in self._state.tasks.values()]
            refuse_used_generation(request, self._catalog, here)
            key = self._state.works.ask(request)
        self.wake.set()
        with self._changed:
            self._changed.wait_for(lambda: self._state.works.is_over(key), wait_seconds)
            return self._state.works.answer(key)

    # ---- what the world says: hosts

    def host_event(self, host: str, event: Event) -> None:
        """A host said something; what hosts that have ended said before is of no interest any more."""
        with self._changed:
            if host not in self._state.hosts:
                return
            is_news = self._state.is_news(event)
            fenced = self._state.take(host, event, self._clock.monotonic())
            if fenced is not None:
                log.warning("shard given up: fenced", task=fenced.task_id, shard=fenced.shard, epoch=fenced.epoch)
                self._tenure.give_up(fenced.shard, fenced.epoch)
            self._changed.notify_all()
        if is_news:
            self.wake.set()
            self.report_due.set()

    # ---- deciding and acting

    def tick(self) -> tuple[Action, ...]:
        """Decides what to do now, and does it. Called by one thread only. Returns what was decided."""
        with self._changed:
            now = self._clock.monotonic()
            self._check_lease(now)
            self._notice_exits(now)
            wanted = self._want(now)
            self._state.forget_old_crashes(set(wanted.tasks), now)
            actions = reconcile(wanted, self._state.running(), self._present_limits(), now)
            actions = (*actions, *self._place_works(wanted, actions, now))
            effects = [
                *self._lease_news.effects(self._pool.names(), self._state, self._tenure.lease, now),
                *(effect for action in actions for effect in apply(self._state, action, now)),
            ]
            self._announce()
            self._changed.notify_all()
        for effect in effects:
            self._pool.perform(effect)
        if actions:
            self.report_due.set()
        return actions

    def begin_shutdown(self) -> None:
        """From now on nothing is wanted here."""
        with self._changed:
            self._shutting_down = True
        self.wake.set()

    def await_idle(self, timeout_seconds: float) -> bool:
        """Waits until nothing runs; False when it still does after the time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._state.tasks, timeout_seconds)

    def kill_hosts(self) -> None:
        """The end: kills every host."""
        self._pool.kill_all()

    # ---- what it tells

    def report(self) -> TaskReportBatch:
        """What runs here now, with the loads that are to be told."""
        with self._changed:
            now = self._clock.monotonic()
            self._want(now)
            return TaskReportBatch(
                container=self._identity.container,
                incarnation=self._tenure.incarnation,
                commit_number=self._catalog.commit_number if self._catalog else 0,
                version=self._tenure.ownership.version,
                tasks=task_reports(
                    self._wanted, self._state.running(), self._state.progress, self._state.loads.due(now)
                ),
            )

    def reported(self, batch: TaskReportBatch) -> None:
        """The Task Service has taken a report."""
        with self._changed:
            self._state.loads.told(told_loads(batch), self._clock.monotonic())

    def summary(self) -> Summary:
        """The container at this moment."""
        with self._changed:
            now = self._clock.monotonic()
            self._want(now)
            running = self._state.running()
            return Summary(
                incarnation=self._tenure.incarnation,
                lease_seconds_left=self._tenure.lease.seconds_left(now),
                shards=dict(self._tenure.ownership.shards),
                version=self._tenure.ownership.version,
                commit_number=self._catalog.commit_number if self._catalog else None,
                running=running.copy(),
                waiting=len(self._wanted.keys() - running.tasks.keys()),
                totals=dict(self._state.totals),
                past_lease_seconds=self._meter.past_lease_seconds,
                double_run_seconds=self._meter.double_run_seconds,
                event_time_skew_seconds=skews(self._state.progress),
            )

    # ---- details: lease and shards

    def _grant(self, sent_at: float, seconds: float, owned: StoredShards, told: Mapping[int, int], now: float) -> None:
        """A lease with a full map. All that is kept by number of shard follows the map's sharding, before anything
        else is decided."""
        before = self._tenure.ownership.sharding
        self._tenure.grant(sent_at, seconds, owned, told, now)
        sharding = self._tenure.ownership.sharding
        if sharding is None or sharding == before:
            return
        log.info("shards are others", shards=sharding.count, selectors=len(sharding.selectors), version=owned.version)
        self._state.reshard(sharding)
        if self._catalog is not None:
            self._catalog = self._catalog.under(sharding)

    def _check_lease(self, now: float) -> None:
        expired_at = self._tenure.expired_at(now)
        if expired_at is not None:
            self._begin_anew("lease ran out", expired_at)

    def _is_current(self, incarnation: str, now: float) -> bool:
        self._check_lease(now)
        return incarnation == self._tenure.incarnation

    def _begin_anew(self, reason: str, ended_at: float) -> None:
        """Forgets all shards, so that every task stops, and begins another life as an empty container."""
        lease, shards = self._tenure.lease, self._tenure.ownership.shards
        log.warning("container begins anew", reason=reason, shards=len(shards), tasks=len(self._state.tasks))
        if lease.was_granted():
            ended_at = min(ended_at, lease.good_until)
            self.heartbeat_due.set()
        self._state.end_of_lease(ended_at)
        self._tenure.begin_anew()

    def _of_former_leases(self) -> list[TaskView]:
        return [task for task in self._state.tasks.values() if task.lease_ended_at is not None]

    def _held(self) -> dict[int, int]:
        """Owned shards, and those of which something still runs."""
        stopping = {task.shard: task.epoch for task in self._state.tasks.values()}
        return {**stopping, **self._tenure.ownership.shards}

    def _dropped(self) -> dict[int, int]:
        busy = {task.shard for task in self._state.tasks.values()}
        return {shard: epoch for shard, epoch in self._tenure.ownership.dropped.items() if shard not in busy}

    def _announce(self) -> None:
        """Asks for a heartbeat at once when the Shard Manager is waiting for what has just come true."""
        news = (self._tenure.incarnation, self._dropped(), bool(self._of_former_leases()))
        if news != self._announced:
            self._announced = news
            self.heartbeat_due.set()

    # ---- details: tasks and hosts

    def _want(self, now: float) -> Wanted:
        catalog, shards = self._wanted_of
        if self._catalog is not None and (catalog is not self._catalog or shards != self._tenure.ownership.shards):
            owned = self._tenure.ownership.shards
            self._wanted_of = (self._catalog, owned)
            jobs = {task.spec.job for task in self._wanted.values()}
            if shards != owned or not self._catalog.asks_the_same(catalog, owned, jobs):
                self._wanted = self._catalog.wanted(owned, self._identity)
        is_informed = self._catalog is not None and self._tenure.may_start_from(self._catalog.commit_number)
        tasks = self._wanted if is_informed and not self._shutting_down else {}
        return Wanted(tasks, self._tenure.lease.is_good(now), self._state.present_deadlines())

    def _place_works(self, wanted: Wanted, decided: tuple[Action, ...], now: float) -> list[Action]:
        if not wanted.lease_is_good:
            return []
        state = self._state
        load = Counter(task.host for task in state.tasks.values())
        return place(state.works, state.hosts, load, state.host_failures, self._limits, decided, now)

    def _present_limits(self) -> Limits:
        return replace(self._limits, warm_hosts=0) if self._shutting_down else self._limits

    def _host_exited(self) -> None:
        self.wake.set()
        self.report_due.set()

    def _notice_exits(self, now: float) -> None:
        """Takes in ended hosts, and measures what ran past its lease before they are forgotten."""
        lapsed = self._pool.lapsed()
        past_lease = {task.task_id: task for task in self._of_former_leases() if task.host not in lapsed}
        for name, how in self._pool.take_ended().items():
            self._lease_news.forget(name)
            for task in self._state.host_exited(name, how, now):
                if how.lease_ran_out:
                    past_lease.pop(task.task_id, None)
        ended_at = [task.lease_ended_at for task in past_lease.values() if task.lease_ended_at is not None]
        self._meter.sample(min(ended_at, default=None), now)
