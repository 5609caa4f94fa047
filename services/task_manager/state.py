"""The container's tasks and hosts, and how actions and host events change them.

No I/O and no clock: `now` is passed in. Not thread-safe: `container.Container` guards it with its lock.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from itertools import count
from logging import INFO, WARNING
from typing import Any, NamedTuple

from penstock.control.logs import logger
from penstock.model.reports import TaskProgress, TaskState
from penstock.spark.channel import Event, Exit, Lease, Live, Progress, Ready, Reply, Start, Stop, TaskEnded
from penstock.spark.channel import HostTaskProgress as HostTaskEvent
from penstock.spark.channel import Loads as LoadsEvent
from penstock.spark.measure.quiet import without_quiet
from penstock.tasks.selectors import selector
from penstock.tasks.shards import Sharding
from services.task_manager.decide.actions import (
    Action,
    AdoptRevision,
    ApplyLive,
    CancelHostTask,
    EndHost,
    EvacuateHost,
    GiveUpTask,
    KeepHost,
    KeepTask,
    KillHost,
    PrepareTask,
    RunHostTask,
    StartHost,
    StartTask,
    StopReason,
    StopTask,
)
from services.task_manager.decide.effects import Effect, Send, Spawn
from services.task_manager.decide.model import HostExit, HostKey, HostPhase, HostView, Limits, Observed, Place, TaskView
from services.task_manager.hosts.host_tasks import AcceptedHostTasks
from services.task_manager.hosts.preparing import command_of
from services.task_manager.observed.failures import Failure, Failures, error_kind
from services.task_manager.observed.loads import Loads
from services.task_manager.observed.silence import known_progress
from services.task_manager.observed.start_times import StartTimes

log = logger(__name__)
_MOST_LAST_HOSTS = 1_000


class _Sent(NamedTuple):
    """A command that waits for its reply, about the run of a task that the command `start_id` began."""

    command: Start | Stop | Live
    task_id: str
    start_id: int


class State:
    """Each event and action is one method that changes all that it concerns. `observed` changes with it.

    `progress`: the newest by task id, as hosts told it. `totals`: counters for metrics since the process began.
    """

    def __init__(self, container: str, limits: Limits) -> None:
        self._container = container
        self._limits = limits
        self._tasks: dict[str, TaskView] = {}
        self._hosts: dict[str, HostView] = {}
        self._failures = Failures(limits)
        self._host_numbers, self._command_ids = count(1), count(1)
        self._sent: dict[int, _Sent] = {}
        self.observed = Observed(self._tasks, self._hosts, self._failures.crashes, self._failures.hosts)
        self.progress: dict[str, TaskProgress] = {}
        self.totals: Counter[str] = Counter()
        self.loads = Loads(limits)
        self.start_times = StartTimes()
        self.host_tasks = AcceptedHostTasks()
        self._last_hosts: dict[str, str] = {}

    # ---- what is here

    def tasks_in(self, shards: Collection[int]) -> list[str]:
        """The ids of the tasks of these shards, sorted."""
        return sorted(task_id for task_id, task in self._tasks.items() if task.shard in shards)

    def place_of(self, task_id: str) -> Place | None:
        """The host of a task, or the one in which it ran last; None for a task that never started here. Any thread may
        ask: it copies what another may change, which no other Python code interrupts."""
        host = self._last_hosts.get(task_id)
        tasks = list(self._tasks.values())
        return None if host is None else Place(host, sum(task.host == host for task in tasks))

    def tasks_without_lease(self) -> list[TaskView]:
        """Tasks that were started under a lease which has ended."""
        return [task for task in self._tasks.values() if task.lease_ended_at is not None]

    def busy_shards(self) -> dict[int, int]:
        """The shards of which tasks are here, with the epoch of one of these tasks."""
        return {task.shard: task.epoch for task in self._tasks.values()}

    def known_progress(self, now: float) -> dict[str, TaskProgress]:
        """What is known of the progress of tasks now, by task id."""
        return known_progress(self.progress, self.observed, self._limits, now)

    # ---- changes of shards and lease

    def shard_dropped(self, shard: int, kill_at: float) -> None:
        """The tasks of a shard must end by `kill_at`; soon after that their host ends."""
        dropped_until = kill_at + self._limits.drop_evacuate_seconds
        for task_id in self.tasks_in({shard}):
            task = self._tasks[task_id]
            ends = {"kill_at": min(kill_at, task.kill_at), "dropped_until": min(dropped_until, task.dropped_until)}
            self._change_task(task_id, **ends)

    def end_of_lease(self, ended_at: float) -> None:
        """The lease ended: all present tasks must end soon, even if another lease is granted meanwhile."""
        for task_id, task in self._tasks.items():
            kill_at = min(task.kill_at, ended_at + self._limits.lease_stop_seconds)
            lease_ended_at = ended_at if task.lease_ended_at is None else task.lease_ended_at
            self._change_task(task_id, kill_at=kill_at, lease_ended_at=lease_ended_at)

    def reshard(self, sharding: Sharding) -> None:
        """Puts every task under the number that its shard has now.

        A task that no shard of the new sharding contains keeps its old shard until it ends.
        """
        for task_id, task in self._tasks.items():
            config = task.spec.config
            shard = sharding.shard_of(task_id, selector(config.region, config.container_labels))
            self._change_task(task_id, shard=task.shard if shard is None else shard)

    def forget_old_crashes(self, desired: Collection[str], now: float) -> None:
        """Forgets crashes of tasks that are healthy again or are no longer desired here."""
        self._failures.forget_old_crashes(self._tasks, desired, now)
        if len(self._last_hosts) > _MOST_LAST_HOSTS + 2 * len(desired):
            self._last_hosts = {name: host for name, host in self._last_hosts.items() if name in desired}

    def relay_lease(self, good_until: float, now: float) -> list[Effect]:
        """Tells each host once of an extension of the lease. So hosts end even if this process is suspended."""
        effects: list[Effect] = []
        if now >= good_until:
            return effects
        for name, host in self._hosts.items():
            if host.phase is not HostPhase.ENDING and host.lease_until != good_until:
                self._change_host(name, lease_until=good_until)
                effects.append(Send(name, Lease(id=self._next_id(), seconds=good_until - now, sent_at=now)))
        return effects

    # ---- actions

    def act(self, action: Action, now: float) -> Effect | None:
        """Records an action. Returns the effect on a host that carries it out, if it needs one."""
        match action:
            case StartHost():
                return self._start_host(action.key, now)
            case EndHost():
                self._change_host(action.host, phase=HostPhase.ENDING, since=now, kill_at=action.kill_at)
                return Send(action.host, Exit(id=self._next_id()))
            case EvacuateHost():
                log.warning("host evacuated", host=action.host, reason=action.reason)
                self.totals["host_evacuations"] += 1
                self._change_host(action.host, phase=HostPhase.LEAVING, since=now, kill_at=action.kill_at)
                return None
            case KeepHost():
                log.info("host kept", host=action.host)
                self._change_host(action.host, phase=HostPhase.READY, since=now, kill_at=math.inf)
                return None
            case KillHost():
                log.warning("host killed", host=action.host, reason=action.reason)
                return action
            case StartTask():
                return self._start_task(action, now)
            case PrepareTask() | GiveUpTask():
                return Send(action.host, command_of(action, self._next_id()))
            case StopTask():
                return self._stop_task(action, now)
            case KeepTask():
                self._tasks[action.task_id] = self._tasks[action.task_id].without_deadline()
                return None
            case ApplyLive():
                task = self._change_task(action.task_id, pending_live=action.spec)
                self._forget_quiet(task.task_id)
                return self._send(task, Live(id=self._next_id(), spec=action.spec))
            case AdoptRevision():
                log.info("revision adopted", task=action.task_id, revision=action.spec.revision)
                self._change_task(action.task_id, spec=action.spec)
                return None
            case RunHostTask():
                log.info("host task given", key=action.key, host=action.host)
                # Only a host without tasks is killed for its one host task: no task of a job ends for it.
                is_own = self._hosts[action.host].key.for_host_tasks
                kill_at = now + self._limits.host_task_seconds if is_own else math.inf
                self._change_host(action.host, idle_since=None, kill_at=kill_at)
                return Send(action.host, self.host_tasks.assign(action, self._next_id()))
            case CancelHostTask():
                log.info("host task cancelled", key=action.key, host=action.host)
                host = self._hosts[action.host]
                if host.key.for_host_tasks:
                    # It has room for this one task only, and the work of a plan may wait for it.
                    self._change_host(host.name, kill_at=min(host.kill_at, now + self._limits.stop_seconds))
                return Send(action.host, self.host_tasks.revoked(action, self._next_id()))

    def _start_host(self, key: HostKey, now: float) -> Spawn:
        self.totals["host_starts"] += 1
        name = f"{self._container}-host-{next(self._host_numbers)}"
        self._hosts[name] = HostView(name, key, HostPhase.STARTING, now, now)
        return Spawn(name, key)

    def _start_task(self, action: StartTask, now: float) -> Send:
        spec, epoch = action.spec, action.epoch
        log.info("task starts", task=spec.task_id, revision=spec.revision, epoch=epoch)
        self.totals["task_starts"] += 1
        self.totals["task_restarts"] += self._failures.task_starts(spec)
        command = Start(id=self._next_id(), spec=spec, epoch=epoch, commit_number=action.commit_number)
        task = TaskView(spec, action.shard, epoch, TaskState.STARTING, action.host, now, command.id)
        self._tasks[spec.task_id] = task
        self._last_hosts[spec.task_id] = action.host
        self._change_host(action.host, idle_since=None)
        return self._send(task, command)

    def _stop_task(self, action: StopTask, now: float) -> Send:
        task = self._tasks[action.task_id]
        log.info("task stops", task=action.task_id, revision=task.spec.revision, reason=action.reason.value)
        if action.reason is StopReason.START_TOOK_TOO_LONG:
            self.start_times.add(now - task.since, now)
        self._change_task(action.task_id, state=TaskState.STOPPING, since=now, kill_at=action.kill_at)
        return self._send(task, Stop(id=self._next_id(), task_id=task.task_id))

    # ---- events of hosts

    def is_news(self, event: Event) -> bool:
        """Whether the State Syncer waits for what an event says: that a task has finished its last batch."""
        if not isinstance(event, Progress):
            return False
        known = {(name, each.level_ms) for name, each in self.progress.items() if each.quiesced}
        return any(each.quiesced and (name, each.level_ms) not in known for name, each in event.tasks.items())

    def changes_decisions(self, event: Event) -> bool:
        """Whether an event may change the next decisions. Measurements and ignored replies cannot."""
        if isinstance(event, Reply):
            return event.id in self._sent or self.host_tasks.awaits(event.id)
        return not isinstance(event, HostTaskEvent | Progress | LoadsEvent)

    def take(self, host: str, event: Event, now: float) -> TaskView | None:
        """Takes in an event of a host. Returns the task that the event reports as fenced, if any."""
        match event:
            case Ready():
                self._host_ready(host, now)
            case Reply():
                return self._replied(host, event, now)
            case HostTaskEvent():
                self.host_tasks.progressed(event)
            case Progress():
                self._change_host(host, heard_at=now)
                self.progress |= {name: each for name, each in event.tasks.items() if self._find(name, host)}
            case LoadsEvent():
                for task_id, load in event.tasks.items():
                    if self._find(task_id, host):
                        self.loads.add(task_id, load, now)
            case TaskEnded():
                return self._task_ended(host, event, now)
        return None

    def host_exited(self, name: str, how: HostExit, now: float) -> list[TaskView]:
        """The host has ended with its tasks, which are returned. Those that were not stopping have crashed."""
        host, lost = self._hosts.pop(name), self._on_host(name)
        expected = host.phase is HostPhase.ENDING
        log.log(INFO if expected else WARNING, "host ended", host=name, reason=how.reason, tasks=len(lost))
        if host.phase is HostPhase.STARTING:
            self._failures.host_failed(host.key, how.why_not_started, now, after_seconds=now - host.since)
        # On a shared host it is unknown which task took the memory, so no task is reported as out of memory.
        out_of_memory = how.out_of_memory and len(lost) == 1
        failure = Failure(f"host {name} ended: {how.reason}", "retryable", out_of_memory, of_host=True)
        for task in lost:
            self._task_failed(task, failure, now)
        starts = {task.start_id for task in lost}
        self._sent = {command_id: sent for command_id, sent in self._sent.items() if sent.start_id not in starts}
        self.host_tasks.host_exited(name, how.reason, was_late=now >= host.kill_at)
        return lost

    def _host_ready(self, name: str, now: float) -> None:
        host = self._hosts[name]
        if host.phase is HostPhase.STARTING:
            log.info("host ready", host=name, seconds=round(now - host.since, 3))
            self._change_host(name, phase=HostPhase.READY, since=now, idle_since=now, heard_at=now)
            self._failures.hosts.pop(host.key, None)

    def _task_ended(self, host: str, event: TaskEnded, now: float) -> TaskView | None:
        task = self._find(event.task_id, host)
        failure = Failure(event.error, error_kind(event.error_kind), event.out_of_memory)
        return None if task is None else self._task_failed(task, failure, now)

    def _replied(self, host: str, reply: Reply, now: float) -> TaskView | None:
        if self.host_tasks.awaits(reply.id):
            self.host_tasks.replied(reply)
            if self._hosts[host].phase is not HostPhase.LEAVING:
                self._change_host(host, kill_at=math.inf)
            self._check_idle(host, now)
            return None
        sent = self._sent.pop(reply.id, None)
        task = None if sent is None else self._find(sent.task_id, host)
        # The task may have ended and started again while the command was on its way: such a reply is out of date.
        if sent is None or task is None or task.start_id != sent.start_id:
            return None
        match sent.command:
            case Start():
                return self._start_replied(task, reply, now)
            case Stop():
                self._stop_replied(task, reply, now)
            case Live() as command:
                self._live_replied(task, command, reply)
        return None

    def _start_replied(self, task: TaskView, reply: Reply, now: float) -> TaskView | None:
        if not reply.ok:
            return self._task_failed(task, Failure(reply.error or "not started", error_kind(reply.error_kind)), now)
        if task.state is TaskState.STARTING:
            seconds = now - task.since
            self._change_task(task.task_id, state=TaskState.RUNNING, since=now)
            self.start_times.add(seconds, now)
            facts = {"revision": task.spec.revision, "generation": task.spec.generation, "epoch": task.epoch}
            log.info("task runs", task=task.task_id, **facts, host=task.host, seconds=round(seconds, 3))
        return None

    def _stop_replied(self, task: TaskView, reply: Reply, now: float) -> None:
        """A stop that failed is not repeated: the host is killed at the task's deadline."""
        if not reply.ok:
            log.warning("task not stopped", task=task.task_id, host=task.host, error=reply.error)
            return
        self._remove(task, now)
        seconds = round(now - task.since, 3)
        log.info("task stopped", task=task.task_id, revision=task.spec.revision, host=task.host, seconds=seconds)

    def _live_replied(self, task: TaskView, command: Live, reply: Reply) -> None:
        if task.pending_live is not command.spec:
            return
        if not reply.ok:
            log.warning("live change refused", task=task.task_id, revision=command.spec.revision, error=reply.error)
            self._change_task(task.task_id, pending_live=None, live_failed=True)
            return
        self._change_task(task.task_id, spec=command.spec, pending_live=None)
        log.info("live change applied", task=task.task_id, revision=command.spec.revision)

    def _task_failed(self, task: TaskView, failure: Failure, now: float) -> TaskView | None:
        """A task has ended by itself, which is a crash unless it was stopping. Returns the task if it was fenced."""
        self._remove(task, now)
        if task.state is not TaskState.STOPPING:
            crash = self._failures.task_failed(task, failure, now)
            self.totals["task_crashes"] += 1
            facts = {"task": task.task_id, "revision": task.spec.revision, "host": task.host, "kind": failure.kind}
            seconds = round(crash.retry_at - now, 3)
            log.warning("task crashed", **facts, error=failure.error, in_a_row=crash.count, retry_in_seconds=seconds)
        return task if failure.kind == "fenced" else None

    # ---- details

    def _next_id(self) -> int:
        return next(self._command_ids)

    def _send(self, task: TaskView, command: Start | Stop | Live) -> Send:
        self._sent[command.id] = _Sent(command, task.task_id, task.start_id)
        return Send(task.host, command)

    def _forget_quiet(self, task_id: str) -> None:
        """What a task said of an earlier order to take no more rows does not answer this one."""
        progress = self.progress.get(task_id)
        if progress is not None and progress.quiesced:
            self.progress[task_id] = without_quiet(progress)

    def _find(self, task_id: str, host: str) -> TaskView | None:
        task = self._tasks.get(task_id)
        return task if task is not None and task.host == host else None

    def _on_host(self, host: str) -> list[TaskView]:
        return [task for task in self._tasks.values() if task.host == host]

    def _change_task(self, task_id: str, **changes: Any) -> TaskView:
        self._tasks[task_id] = task = replace(self._tasks[task_id], **changes)
        return task

    def _change_host(self, name: str, **changes: Any) -> None:
        self._hosts[name] = replace(self._hosts[name], **changes)

    def _remove(self, task: TaskView, now: float) -> None:
        del self._tasks[task.task_id]
        self.progress.pop(task.task_id, None)
        self.loads.forget(task.task_id)
        self._check_idle(task.host, now)

    def _check_idle(self, host: str, now: float) -> None:
        """A host that has nothing to do is idle; one that has ended is not listed."""
        if host in self._hosts and not self._on_host(host) and not self.host_tasks.load()[host]:
            self._change_host(host, idle_since=now)
