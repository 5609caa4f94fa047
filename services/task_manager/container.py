"""The container: composes membership, specs, tasks and hosts behind one lock. The parts decide.

Entry points record each message and wake the loop. `tick`, which one thread calls, decides and acts: it takes the
lock to decide and releases it to act, so a slow host cannot delay the lease. Every entry point first checks whether the
lease has run out. So after a pause of the whole process no queued message is handled before the end of the lease.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from penstock.control.clock import Clock
from penstock.control.errors import Conflict, Unavailable
from penstock.control.logs import logger
from penstock.model.reports import TaskReportBatch
from penstock.spark.channel import Event
from penstock.tasks.analysis import AnalysisReport
from penstock.tasks.host_request import HostRequest
from penstock.tasks.host_task import HostTask
from penstock.tasks.ownership import OwnedShards
from penstock.tasks.shards import Sharding
from penstock.wire.analyses import AnalysisCall
from penstock.wire.cluster import HeartbeatAnswer, HeartbeatRequest, Identity, ShardAnswers, ShardOrders
from penstock.wire.host_tasks import HostTaskAnswer, HostTaskState
from services.task_manager.decide.actions import Action
from services.task_manager.decide.host_choice import has_host, host_key_for
from services.task_manager.decide.model import DesiredTask, Limits
from services.task_manager.decide.reconcile import Desired, reconcile
from services.task_manager.hosts.host_pool import HostPool
from services.task_manager.hosts.host_tasks import place, refusal
from services.task_manager.hosts.preparing import Preparing
from services.task_manager.hosts.spark_hosts import SparkHosts
from services.task_manager.membership.heard_leader import refusing
from services.task_manager.membership.membership import Membership
from services.task_manager.membership.overrun import OverrunMeter
from services.task_manager.reporting import Summary, reported_loads, summary_of, task_reports
from services.task_manager.specs.spec_cache import SpecCache, stops_jobs
from services.task_manager.state import State

log = logger(__name__)


class Container:
    """Thread-safe. The loops wait for the events `wake`, `heartbeat_due` and `report_due`, and clear them."""

    def __init__(
        self, identity: Identity, limits: Limits, hosts: SparkHosts, clock: Clock, new_incarnation: Callable[[], str]
    ) -> None:
        self._identity = identity
        self._limits = limits
        self._clock = clock
        self._changed = threading.Condition()
        self._state = State(identity.container, limits)
        self._pool = HostPool(hosts, self.host_event, self._host_exited)
        self._meter = OverrunMeter(limits.lease_stop_seconds)
        self._membership = Membership(identity.container, new_incarnation)
        self._specs: SpecCache | None = None
        self._owned_tasks: Mapping[str, DesiredTask] = {}
        self._owned_of: tuple[SpecCache | None, Mapping[int, int]] = (None, {})
        self._announced: object = None
        self._preparing = Preparing()
        self.place_of = self._state.place_of  # asked without the lock
        self._shutting_down = False
        self.wake, self.heartbeat_due, self.report_due = (threading.Event() for _ in range(3))

    @contextmanager
    def _locked(self) -> Iterator[float]:
        """Holds the lock and yields the time, after the end of a lease that has run out."""
        with self._changed:
            now = self._clock.monotonic()
            if self._membership.was_granted() and not self._membership.has_lease(now):
                self._restart_empty("lease ran out", now)
            yield now

    # ---- specs

    def take_specs(self, specs: SpecCache) -> None:
        """The newest specs."""
        with self._changed:
            specs = specs.with_sharding(self._membership.ownership.sharding)
            before, self._specs = self._specs, specs
        if before is not specs:
            log.info("specs changed", commit_number=specs.commit_number, jobs=len(specs.jobs))
            self.wake.set()
            if stops_jobs(before, specs):
                # The State Syncer waits for a report of every container, including those that ran no task of the job.
                self.report_due.set()

    def start_afresh(self, reason: str) -> None:
        """What is known here is of another incarnation of the job store: all tasks stop, and specs, shards and epochs
        are forgotten. A new incarnation of the container joins."""
        with self._locked() as now:
            self._restart_empty(reason, now)
            self._membership.forget()
            self._state.host_tasks.forget()
            self._specs = None
        self.wake.set()
        self.heartbeat_due.set()

    def sharding(self) -> Sharding | None:
        """The sharding of the newest map; None before the first map."""
        with self._changed:
            return self._membership.ownership.sharding

    # ---- heartbeats and lease

    def heartbeat_request(self) -> HeartbeatRequest | None:
        """The next heartbeat. None while tasks of an ended lease still stop: a new incarnation must begin empty."""
        with self._locked() as now:
            if self._state.tasks_without_lease():
                return None
            ownership = self._membership.ownership
            held = {**self._state.busy_shards(), **ownership.shards}
            return HeartbeatRequest(
                **dict(self._identity),
                incarnation=self._membership.incarnation,
                held=held,
                dropped=self._dropped(),
                shard_count=ownership.shard_count,
                start_seconds=self._state.start_times.typical_seconds(now),
                refuses=refusing(self._membership.leader, self._state.host_tasks.leader),
            )

    def heartbeat_answered(self, request: HeartbeatRequest, answer: HeartbeatAnswer, sent_at: float) -> None:
        """The Shard Manager answered a heartbeat that was sent at `sent_at` of this container's clock."""
        with self._locked() as now:
            if request.incarnation != self._membership.incarnation:
                return
            if answer.known:
                reported = request.dropped if request.shard_count == answer.shard_count else {}
                self._grant(sent_at, answer.lease_seconds, answer.owned, reported, now)
            else:
                self._restart_empty("declared lost or replaced", now)
        self.wake.set()

    def lease_stored(self, incarnation: str, stored: OwnedShards, sent_at: float, seconds: float) -> None:
        """The container renewed its own lease row, beginning at `sent_at`, and read the stored map."""
        with self._locked() as now:
            if incarnation == self._membership.incarnation:
                self._grant(sent_at, seconds, stored, {}, now)
        self.wake.set()

    def lease_refused(self, incarnation: str) -> None:
        """According to the store this incarnation was declared lost or replaced."""
        with self._locked() as now:
            if incarnation == self._membership.incarnation:
                self._restart_empty("declared lost or replaced by the store", now)
        self.wake.set()

    def was_granted(self, incarnation: str) -> bool:
        """Whether this incarnation was granted a lease that is not yet known to have run out."""
        with self._changed:
            return incarnation == self._membership.incarnation and self._membership.was_granted()

    # ---- orders of the Shard Manager

    def drop(self, order: ShardOrders) -> ShardAnswers:
        """DROP_SHARD: the tasks that will stop, by shard. `await_stopped` waits for their end. Raises Conflict."""
        with self._locked() as now:
            dropped = self._membership.drop(order, now)
            for shard in dropped:
                self._state.shard_dropped(shard, now + order.deadline_seconds)
            tasks = {shard: tuple(self._state.tasks_in({shard})) for shard in sorted(dropped)}
        self.wake.set()
        return ShardAnswers(tasks=tasks)

    def await_stopped(self, order: ShardOrders, dropped: ShardAnswers, timeout_seconds: float) -> ShardAnswers:
        """The dropped shards of which no task runs any more; waits for all of them, at most the timeout.

        None of them when the number of shards has changed meanwhile: then the heartbeats report what was dropped.
        """
        shards = frozenset(dropped.tasks)
        with self._changed:
            self._changed.wait_for(lambda: not self._state.tasks_in(shards), timeout_seconds)
            if self._membership.ownership.shard_count != order.shard_count:
                return ShardAnswers(tasks={})
            busy = self._state.busy_shards()
        return ShardAnswers(tasks={shard: tasks for shard, tasks in dropped.tasks.items() if shard not in busy})

    def add(self, order: ShardOrders) -> ShardAnswers:
        """ADD_SHARD: the tasks that will start, by shard. Raises Conflict, also without a lease."""
        with self._locked() as now:
            added, specs = self._membership.add(order, now), self._specs
            tasks = {shard: specs.tasks_of(shard) if specs else () for shard in sorted(added)}
        self.wake.set()
        return ShardAnswers(tasks=tasks)

    # ---- host tasks of the State Syncer

    def host_task(self, task: HostTask, wait_seconds: float) -> HostTaskAnswer:
        """Begins a host task unless it has begun. Returns its progress after waiting for its end for `wait_seconds`.

        Raises Unavailable without a lease, and while the specs here may be older than the stop of the job. Raises
        Conflict for a task of an older leader, a cancelled one, a generation that is in use or was used before, and
        work that can be left out when there is no memory for its host.
        """
        with self._locked() as now:
            if not self._membership.has_lease(now) or self._shutting_down:
                raise Unavailable("this container has no lease or is shutting down")
            if (problem := self._refusal(task.request)) is not None:
                raise problem
            tasks, memory_bytes = self._state.host_tasks, self._identity.capacity.memory_bytes
            tasks.ask(task, tasks.key_for(task, memory_bytes, self._state.observed, self._limits), now)
        self.wake.set()
        with self._changed:
            self._changed.wait_for(lambda: self._state.host_tasks.is_over(task.key), wait_seconds)
            return self._state.host_tasks.answer(task.key)

    def analyse(self, call: AnalysisCall) -> AnalysisReport:
        """Has a host with the job's package analyse it (`AnalysisCall` says by which). Raises Unavailable without a
        lease or a host, and when the analysis does not end in time."""
        with self._locked() as now:
            if not self._membership.has_lease(now) or self._shutting_down:
                raise Unavailable("this container has no lease or is shutting down")
            key = host_key_for(call.request, self._identity.capacity.memory_bytes)
            if not (call.start_host or has_host(self._state.observed, key, starting=call.await_host)):
                raise Unavailable("no host with the job's package is ready")
            tasks = self._state.host_tasks
            request = call.request.model_copy(update={"within_seconds": call.wait_seconds})
            task = HostTask(leader_epoch=tasks.leader_epoch, request=request)
            tasks.ask(task, key, now)
        self.wake.set()
        with self._changed:
            self._changed.wait_for(lambda: tasks.is_over(task.key), call.wait_seconds)
            answer = tasks.answer_and_forget(task.key)
        if answer.state is not HostTaskState.DONE:
            self.wake.set()
            raise Unavailable(answer.error or f"the analysis did not end within {call.wait_seconds:.2g} s")
        return AnalysisReport.model_validate(answer.report)

    def cancel_host_task(self, key: str, leader_epoch: int) -> None:
        """Drops a host task, or has its host told not to begin. Raises Conflict when a newer leader was heard."""
        with self._changed:
            self._state.host_tasks.cancel(key, leader_epoch, self._clock.monotonic())
        self.wake.set()

    # ---- hosts

    def host_event(self, host: str, event: Event) -> None:
        """An event of a host; ignored when the host has ended."""
        with self._changed:
            if host not in self._state.observed.hosts:
                return
            needs_tick, is_news = self._state.changes_decisions(event), self._state.is_news(event)
            fenced = self._state.take(host, event, self._clock.monotonic())
            if fenced is not None:
                log.warning("shard given up: fenced", task=fenced.task_id, shard=fenced.shard, epoch=fenced.epoch)
                self._membership.give_up(fenced.shard, fenced.epoch)
            self._changed.notify_all()
        if needs_tick:
            self.wake.set()
        if needs_tick or is_news:
            self.report_due.set()

    def _host_exited(self) -> None:
        self.wake.set()
        self.report_due.set()

    # ---- deciding and acting

    def tick(self) -> tuple[Action, ...]:
        """Decides what to do now and does it. Called by one thread only. Returns the actions."""
        with self._locked() as now:
            self._take_exits(now)
            desired = self._desired(now)
            self._state.forget_old_crashes(desired.tasks.keys(), now)
            actions = reconcile(desired, self._state.observed, self._limits, now)
            actions = (*actions, *self._host_task_actions(desired, actions, now))
            leases = self._state.relay_lease(self._membership.lease_until, now)
            effects = [*leases, *(self._state.act(action, now) for action in actions)]
            self._announce()
            self._changed.notify_all()
        for effect in effects:
            if effect is not None:
                self._pool.perform(effect)
        if actions:
            self.report_due.set()
        return actions

    def begin_shutdown(self) -> None:
        """From now on no task is desired here."""
        with self._changed:
            self._shutting_down = True
            self._limits = self._limits.model_copy(update={"warm_hosts": 0})
        self.wake.set()

    def await_idle(self, timeout_seconds: float) -> bool:
        """Waits until no task runs here. False when some still run after the timeout."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._state.observed.tasks, timeout_seconds)

    def kill_hosts(self) -> None:
        """Kills every host, at the end of the process."""
        self._pool.kill_all()

    # ---- reports

    def report(self) -> TaskReportBatch:
        """All tasks of the container as they are now, with the loads that are due."""
        with self._changed:
            now, state = self._clock.monotonic(), self._state
            return TaskReportBatch(
                container=self._identity.container,
                incarnation=self._membership.incarnation,
                commit_number=self._specs.commit_number if self._specs else 0,
                version=self._membership.ownership.version,
                tasks=task_reports(self._owned(), state.observed, state.known_progress(now), state.loads.due(now)),
            )

    def reported(self, batch: TaskReportBatch) -> None:
        """The Task Service has stored a report."""
        with self._changed:
            self._state.loads.reported(reported_loads(batch), self._clock.monotonic())

    def summary(self) -> Summary:
        """The container at this moment."""
        with self._changed:
            now, commit_number = self._clock.monotonic(), self._specs.commit_number if self._specs else None
            return summary_of(now, self._membership, self._state, self._meter, commit_number, self._owned().keys())

    # ---- details: lease and shards

    def _grant(
        self, sent_at: float, seconds: float, owned: OwnedShards, reported: Mapping[int, int], now: float
    ) -> None:
        """A lease with a full map. When the map has a new sharding, tasks and specs get its shard numbers at once."""
        before = self._membership.ownership.sharding
        self._membership.grant(sent_at, seconds, owned, reported, now)
        sharding = self._membership.ownership.sharding
        if sharding is None or sharding == before:
            return
        log.info("sharding changed", shards=sharding.count, selectors=len(sharding.selectors), version=owned.version)
        self._state.reshard(sharding)
        if self._specs is not None:
            self._specs = self._specs.with_sharding(sharding)

    def _restart_empty(self, reason: str, now: float) -> None:
        """Forgets all shards, so that every task stops, and begins a new incarnation as an empty container."""
        shards, tasks = len(self._membership.ownership.shards), len(self._state.observed.tasks)
        log.warning("container begins a new incarnation", reason=reason, shards=shards, tasks=tasks)
        if self._membership.was_granted():
            self.heartbeat_due.set()
            now = min(now, self._membership.lease_until)
        self._state.end_of_lease(now)
        self._membership.restart()

    def _dropped(self) -> dict[int, int]:
        """Dropped shards of which no task runs any more."""
        busy = self._state.busy_shards()
        return {shard: epoch for shard, epoch in self._membership.ownership.dropped.items() if shard not in busy}

    def _announce(self) -> None:
        """Asks for a heartbeat at once when it would report something that the Shard Manager waits for."""
        news = (self._membership.incarnation, self._dropped(), bool(self._state.tasks_without_lease()))
        if news != self._announced:
            self._announced = news
            self.heartbeat_due.set()

    # ---- details: tasks and hosts

    def _owned(self) -> Mapping[str, DesiredTask]:
        """The tasks of the owned shards, computed again only when specs or shards changed."""
        owned_of = (self._specs, self._membership.ownership.shards)
        if self._specs is not None and owned_of != self._owned_of:
            self._owned_tasks = self._specs.desired(self._membership.ownership.shards, self._identity)
        self._owned_of = owned_of  # also when only equal: to compare the same objects again costs nothing
        return self._owned_tasks

    def _desired(self, now: float) -> Desired:
        owned = self._owned()
        if self._specs is None or self._shutting_down:
            return Desired({}, self._membership.has_lease(now))
        tasks = self._membership.ready(owned, self._specs.commit_number)
        return Desired(tasks, self._membership.has_lease(now))

    def _refusal(self, request: HostRequest) -> Conflict | Unavailable | None:
        return refusal(request, self._specs, (task.spec for task in self._state.observed.tasks.values()))

    def _host_task_actions(self, desired: Desired, decided: tuple[Action, ...], now: float) -> list[Action]:
        observed, host_tasks = self._state.observed, self._state.host_tasks
        cancelled: list[Action] = [*host_tasks.revoke(self._refusal, now)]
        if not desired.lease_is_good:
            return cancelled
        host_tasks.fail_without_host(observed)
        tasks = place(host_tasks, observed, self._limits, decided, now)
        known = (None if self._shutting_down else self._specs, self._membership.ownership.shards, self._identity)
        return cancelled + tasks + self._preparing.actions(*known, observed, (*decided, *tasks), now)

    def _take_exits(self, now: float) -> None:
        """Takes in the ends of hosts, and measures how long their tasks ran past the lease."""
        lapsed = self._pool.lapsed()
        past_lease = {task.task_id: task for task in self._state.tasks_without_lease() if task.host not in lapsed}
        for name, how in self._pool.take_ended().items():
            for task in self._state.host_exited(name, how, now):
                if how.lease_ran_out:
                    past_lease.pop(task.task_id, None)
        ended_at = [task.lease_ended_at for task in past_lease.values() if task.lease_ended_at is not None]
        self._meter.sample(min(ended_at, default=None), now)
