"""The tasks and hosts of the container and what each event makes of them. No I/O, no clock: `now` is passed in.

Not thread-safe: `container.Container` guards it.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from itertools import count
from logging import INFO, WARNING
from typing import NamedTuple, TypeVar

from penstock.control.logs import logger
from penstock.spark.channel import Event, Exit, Live, Progress, Ready, Reply, Start, Stop, TaskEnded, Work
from penstock.spark.channel import Loads as LoadsEvent
from penstock.tasks.selectors import selector
from penstock.tasks.shards import Sharding
from penstock.tasks.spec import TaskSpec
from penstock.wire.cluster import TaskProgress, TaskState
from services.task_manager.actions import ApplyLive, DoWork, StartHost, StartTask, StopReason, StopTask
from services.task_manager.backoff import delay_seconds, retry_seconds
from services.task_manager.changes import Step, step_between
from services.task_manager.loads import Loads
from services.task_manager.model import (
    Crash,
    ErrorKind,
    HostFailure,
    HostKey,
    HostPhase,
    HostView,
    Limits,
    TaskView,
)
from services.task_manager.ports import HostExit
from services.task_manager.reconcile import Running
from services.task_manager.starts import Starts
from services.task_manager.works import Works

log = logger(__name__)
Remembered = TypeVar("Remembered", Start, Stop, Live)


class Failure(NamedTuple):
    """Why a task ended by itself, or could not be started."""

    error: str
    kind: ErrorKind
    out_of_memory: bool = False


class State:
    """Tasks, hosts, crashes, works, and the commands that are waiting for a reply.

    `deadlines`: by shard that was given up, when the hosts of its tasks are killed.
    """

    def __init__(self, container: str, limits: Limits) -> None:
        self._container = container
        self._limits = limits
        self._host_numbers = count(1)
        self._command_ids = count(1)
        self._waiting: dict[int, tuple[Start | Stop | Live, int]] = {}
        self.tasks: dict[str, TaskView] = {}
        self.hosts: dict[str, HostView] = {}
        self.crashes: dict[str, Crash] = {}
        self.host_failures: dict[HostKey, HostFailure] = {}
        self.progress: dict[str, TaskProgress] = {}
        self.totals: Counter[str] = Counter()
        self.deadlines: dict[int, float] = {}
        self.works = Works()
        self.loads = Loads(limits.loads)
        self.starts = Starts()

    def running(self) -> Running:
        """A view for `reconcile`; read it before the next event."""
        return Running(self.tasks, self.hosts, self.crashes, self.host_failures)

    def tasks_in(self, shards: frozenset[int]) -> list[str]:
        """The ids of tasks of these shards that have not ended, in order."""
        return sorted(task_id for task_id, task in self.tasks.items() if task.shard in shards)

    def next_command_id(self) -> int:
        """An id for a command whose reply nobody waits for."""
        return next(self._command_ids)

    # ---- actions: what they change here, and the command that they send

    def start_host(self, action: StartHost, now: float) -> str:
        """A new host's name."""
        name = f"{self._container}-host-{next(self._host_numbers)}"
        self.hosts[name] = HostView(name, action.key, HostPhase.STARTING, now, now)
        self.totals["host_starts"] += 1
        return name

    def end_host(self, name: str, kill_at: float, now: float) -> Exit:
        """An idle host is asked to end."""
        self.hosts[name] = replace(self.hosts[name], phase=HostPhase.ENDING, since=now, kill_at=kill_at)
        return Exit(id=self.next_command_id())

    def start_task(self, action: StartTask, now: float) -> Start:
        """A task is on its way. Crashes in a row are those of one package and settings: a change begins anew."""
        crash = self.crashes.get(action.spec.task_id)
        if crash is not None and step_between(crash.spec, action.spec) is Step.RESTART:
            del self.crashes[action.spec.task_id]
        command = Start(id=self.next_command_id(), spec=action.spec, epoch=action.epoch)
        task = TaskView(action.spec, action.shard, action.epoch, TaskState.STARTING, action.host, now, command.id)
        self.tasks[task.task_id] = task
        self.hosts[action.host] = replace(self.hosts[action.host], idle_since=None)
        self.totals["task_starts"] += 1
        self.totals["task_restarts"] += task.task_id in self.crashes
        return self._remember(command, task)

    def stop_task(self, action: StopTask, now: float) -> Stop | None:
        """A task has to stop; None when it was told already and only the deadline is nearer."""
        task = self.tasks[action.task_id]
        told = task.state is TaskState.STOPPING
        if action.reason is StopReason.START_TOOK_TOO_LONG:
            self.starts.took(now - task.since, now)
        since = task.since if told else now
        self.tasks[action.task_id] = replace(task, state=TaskState.STOPPING, since=since, kill_at=action.kill_at)
        return None if told else self._remember(Stop(id=self.next_command_id(), task_id=action.task_id), task)

    def apply_live(self, action: ApplyLive) -> Live:
        """A live change is on its way."""
        task = self.tasks[action.task_id]
        self.tasks[action.task_id] = replace(task, pending_live=action.spec)
        return self._remember(Live(id=self.next_command_id(), spec=action.spec), task)

    def do_work(self, action: DoWork) -> Work:
        """A work is on its way."""
        self.hosts[action.host] = replace(self.hosts[action.host], idle_since=None)
        return self.works.assign(action, self.next_command_id())

    def adopt(self, task_id: str, spec: TaskSpec) -> None:
        """The task runs as this spec asks."""
        self.tasks[task_id] = replace(self.tasks[task_id], spec=spec)

    def end_of_lease(self, ended_at: float) -> None:
        """No task that runs now is covered by a lease any more, whatever is granted later."""
        kill_at = ended_at + self._limits.lease_stop_seconds
        for task_id, task in self.tasks.items():
            self.deadlines[task.shard] = min(kill_at, self.deadlines.get(task.shard, math.inf))
            if task.lease_ended_at is None:
                self.tasks[task_id] = replace(task, lease_ended_at=ended_at)

    def present_deadlines(self) -> dict[int, float]:
        """Those of shards that tasks still run of; the others are over."""
        busy = {task.shard for task in self.tasks.values()}
        self.deadlines = {shard: at for shard, at in self.deadlines.items() if shard in busy}
        return self.deadlines

    def reshard(self, sharding: Sharding) -> None:
        """Every task is noted under the number that its shard has now, with the deadline that it had; one that no
        shard has keeps its number until it ends."""
        deadlines: dict[int, float] = {}
        for task_id, task in self.tasks.items():
            config = task.spec.config
            shard = sharding.shard_of(task_id, selector(config.region, config.container_labels))
            self.tasks[task_id] = moved = task if shard is None else replace(task, shard=shard)
            if task.shard in self.deadlines:
                at = self.deadlines[task.shard]
                deadlines[moved.shard] = min(at, deadlines.get(moved.shard, math.inf))
        self.deadlines = deadlines

    # ---- events of hosts

    def is_news(self, event: Event) -> bool:
        """Whether an event can change what to do: measurements cannot, nor replies that nobody waits for."""
        if isinstance(event, Reply):
            return event.id in self._waiting or self.works.awaits(event.id)
        return not isinstance(event, Progress | LoadsEvent)

    def take(self, host: str, event: Event, now: float) -> TaskView | None:
        """Takes in what a host said; the task that was fenced by it, if any."""
        match event:
            case Ready():
                self.host_ready(host, now)
            case Reply():
                return self.replied(host, event, now)
            case Progress():
                self.progressed(host, event.tasks)
            case LoadsEvent():
                self.measured(host, event, now)
            case TaskEnded():
                return self.task_ended(host, event, now)
        return None

    def host_ready(self, name: str, now: float) -> None:
        """The host's session is up."""
        host = self.hosts[name]
        if host.phase is HostPhase.STARTING:
            log.info("host ready", host=name, seconds=round(now - host.since, 3))
            self.hosts[name] = replace(host, phase=HostPhase.READY, since=now, idle_since=now)
            self.host_failures.pop(host.key, None)

    def host_exited(self, name: str, how: HostExit, now: float) -> list[TaskView]:
        """The host is gone, with the tasks on it; those that were not to stop have crashed. Returns all of them."""
        host = self.hosts.pop(name)
        lost = [task for task in self.tasks.values() if task.host == name]
        expected = host.phase is HostPhase.ENDING
        log.log(INFO if expected else WARNING, "host ended", host=name, reason=how.reason, tasks=len(lost))
        if host.phase is HostPhase.STARTING:
            self._host_failed(host.key, how, now)
        # On a shared host nobody knows which task took the memory, so none of them is accused of it.
        failure = Failure(f"host {name} ended: {how.reason}", "retryable", how.out_of_memory and len(lost) == 1)
        for task in lost:
            self._ended(task, failure, now)
        ended_lives = {task.life for task in lost}
        self._waiting = {key: waiting for key, waiting in self._waiting.items() if waiting[1] not in ended_lives}
        self.works.host_exited(name, how.reason)
        return lost

    def replied(self, host: str, reply: Reply, now: float) -> TaskView | None:
        """A command was carried out, or not; the task that was fenced by it, if any."""
        if self.works.awaits(reply.id):
            self.works.replied(reply)
            self._rest(host, now)
            return None
        command, life = self._waiting.pop(reply.id, (None, None))
        task = self.tasks.get(_task_id(command)) if command is not None else None
        # The reply may speak of a former life of the task, which ended by itself while the command was on its way.
        if task is None or task.host != host or task.life != life:
            return None
        match command:
            case Start():
                return self._start_replied(task, reply, now)
            case Stop():
                self._stop_replied(task, reply, now)
            case Live():
                self._live_replied(task, command, reply)
        return None

    def task_ended(self, host: str, event: TaskEnded, now: float) -> TaskView | None:
        """A query ended by itself; the task, if it was fenced."""
        task = self.tasks.get(event.task_id)
        if task is None or task.host != host:
            return None
        failure = Failure(event.error, _kind(event.error_kind), event.out_of_memory)
        return self._failed(task, failure, now)

    def progressed(self, host: str, progress: dict[str, TaskProgress]) -> None:
        """Measurements of a host's tasks."""
        for task_id, measured in progress.items():
            task = self.tasks.get(task_id)
            if task is not None and task.host == host:
                self.progress[task_id] = measured

    def measured(self, host: str, event: LoadsEvent, now: float) -> None:
        """What a host's tasks use."""
        for task_id, load in event.tasks.items():
            task = self.tasks.get(task_id)
            if task is not None and task.host == host:
                self.loads.take(task_id, load, now)

    def forget_old_crashes(self, wanted: set[str], now: float) -> None:
        """Crashes of tasks that are healthy again, or no longer ours."""
        for task_id in [task_id for task_id in self.crashes if self._is_over(task_id, wanted, now)]:
            del self.crashes[task_id]

    # ---- details

    def _is_over(self, task_id: str, wanted: set[str], now: float) -> bool:
        task = self.tasks.get(task_id)
        return task_id not in wanted if task is None else self._is_healthy(task, now)

    def _is_healthy(self, task: TaskView, now: float) -> bool:
        return task.state is TaskState.RUNNING and now - task.since >= self._limits.healthy_seconds

    def _start_replied(self, task: TaskView, reply: Reply, now: float) -> TaskView | None:
        if not reply.ok:
            return self._failed(task, Failure(reply.error or "not started", _kind(reply.error_kind)), now)
        if task.state is TaskState.STARTING:
            self.tasks[task.task_id] = replace(task, state=TaskState.RUNNING, since=now)
            self.starts.took(now - task.since, now)
            log.info(
                "task runs",
                task=task.task_id,
                revision=task.spec.revision,
                generation=task.spec.generation,
                epoch=task.epoch,
                host=task.host,
                seconds=round(now - task.since, 3),
            )
        return None

    def _stop_replied(self, task: TaskView, reply: Reply, now: float) -> None:
        """A stop that failed is tried no more: the deadline ends it, with its host."""
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
            self.tasks[task.task_id] = replace(task, pending_live=None, live_failed=True)
            return
        self.tasks[task.task_id] = replace(task, spec=command.spec, pending_live=None)
        log.info("live change applied", task=task.task_id, revision=command.spec.revision)

    def _failed(self, task: TaskView, failure: Failure, now: float) -> TaskView | None:
        self._ended(task, failure, now)
        return task if failure.kind == "fenced" else None

    def _ended(self, task: TaskView, failure: Failure, now: float) -> None:
        """A task is gone without having been asked, or while it was: the latter is no crash."""
        self._remove(task, now)
        if task.state is TaskState.STOPPING:
            return
        crash = self._crash(task, failure, now)
        self.crashes[task.task_id] = crash
        self.totals["task_crashes"] += 1
        log.warning(
            "task crashed",
            task=task.task_id,
            revision=task.spec.revision,
            host=task.host,
            kind=failure.kind,
            error=failure.error,
            in_a_row=crash.count,
            retry_in_seconds=round(crash.retry_at - now, 3),
        )

    def _crash(self, task: TaskView, failure: Failure, now: float) -> Crash:
        before = self.crashes.get(task.task_id)
        in_a_row = 1 if before is None or self._is_healthy(task, now) else before.count + 1
        retry_at = now + retry_seconds(task.task_id, in_a_row, failure.kind, self._limits)
        return Crash(task.spec, task.epoch, in_a_row, failure.error, failure.kind, failure.out_of_memory, retry_at)

    def _host_failed(self, key: HostKey, how: HostExit, now: float) -> None:
        before = self.host_failures.get(key)
        in_a_row = 1 if before is None else before.count + 1
        delay = delay_seconds(repr(key), in_a_row, self._limits.crash_backoff)
        self.host_failures[key] = HostFailure(in_a_row, how.reason, now + delay)

    def _remove(self, task: TaskView, now: float) -> None:
        del self.tasks[task.task_id]
        self.progress.pop(task.task_id, None)
        self.loads.forget(task.task_id)
        self._rest(task.host, now)

    def _rest(self, name: str, now: float) -> None:
        """A host may have nothing more to do."""
        host = self.hosts.get(name)
        busy = any(task.host == name for task in self.tasks.values()) or self.works.load()[name] > 0
        if host is not None and not busy:
            self.hosts[name] = replace(host, idle_since=now)

    def _remember(self, command: Remembered, task: TaskView) -> Remembered:
        self._waiting[command.id] = (command, task.life)
        return command


def _task_id(command: Start | Stop | Live) -> str:
    return command.task_id if isinstance(command, Stop) else command.spec.task_id


def _kind(text: str | None) -> ErrorKind:
    """An error kind as a host writes it; one that this version does not know is worth another try."""
    match text:
        case "fenced" | "broken_task":
            return text
        case _:
            return "retryable"
