"""The container's tasks and hosts, and how actions and host events change them.

No I/O and no clock: `now` is passed in. Not thread-safe: `container.Container` guards it with its lock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from logging import INFO, WARNING

from penstock.control.logs import logger
from penstock.model.reports import TaskProgress, TaskState
from penstock.spark.channel import Event, Exit, Live, Progress, Ready, Reply, RunHostTask, Start, Stop, TaskEnded
from penstock.spark.channel import Loads as LoadsEvent
from penstock.tasks.shards import Sharding
from penstock.tasks.spec import TaskSpec
from services.task_manager.decide.actions import ApplyLive, StartHost, StartTask, StopReason, StopTask
from services.task_manager.decide.actions import RunHostTask as RunHostTaskAction
from services.task_manager.decide.model import HostPhase, Limits, TaskView
from services.task_manager.decide.reconcile import Observed
from services.task_manager.hosts.host_tasks import HostTasks
from services.task_manager.observed.commands import SentCommands
from services.task_manager.observed.deadlines import ShardDeadlines
from services.task_manager.observed.failures import Failure, Failures, error_kind
from services.task_manager.observed.hosts import HostTable
from services.task_manager.observed.loads import Loads
from services.task_manager.observed.start_times import StartTimes
from services.task_manager.observed.tasks import Tasks
from services.task_manager.ports import HostExit

log = logger(__name__)


class State:
    """Composes the tables of the room `observed`; each event and action is one method that changes them together."""

    def __init__(self, container: str, limits: Limits) -> None:
        self._lease_stop_seconds = limits.lease_stop_seconds
        self._tasks = Tasks()
        self._hosts = HostTable(container)
        self._failures = Failures(limits)
        self._commands = SentCommands()
        self._deadlines = ShardDeadlines()
        self._progress: dict[str, TaskProgress] = {}
        self._totals: Counter[str] = Counter()
        self.loads = Loads(limits.loads)
        self.start_times = StartTimes()
        self.host_tasks = HostTasks()

    # ---- what is here

    def observed(self) -> Observed:
        """Tasks, hosts and failures as they are until the next event."""
        return Observed(self._tasks.by_id, self._hosts.by_name, self._failures.crashes, self._failures.hosts)

    def progress(self) -> Mapping[str, TaskProgress]:
        """The newest progress by task id."""
        return self._progress

    def totals(self) -> Mapping[str, int]:
        """Counters for metrics since the process began."""
        return self._totals

    def tasks_in(self, shards: Collection[int]) -> list[str]:
        """The ids of the tasks of these shards, sorted."""
        return self._tasks.in_shards(shards)

    def tasks_without_lease(self) -> list[TaskView]:
        """Tasks that were started under a lease which has ended."""
        return self._tasks.without_lease()

    def busy_shards(self) -> dict[int, int]:
        """The shards of which tasks are here, with the epoch of one of these tasks."""
        return {task.shard: task.epoch for task in self._tasks.by_id.values()}

    def deadlines(self) -> Mapping[int, float]:
        """By shard that was given up and still has tasks: when their hosts are killed."""
        return self._deadlines.of(self.busy_shards())

    def next_command_id(self) -> int:
        """An id for a command whose reply is ignored."""
        return self._commands.next_id()

    # ---- changes of shards and lease

    def shard_dropped(self, shard: int, kill_at: float) -> None:
        """The tasks of a shard must end by `kill_at`."""
        self._deadlines.dropped(shard, kill_at)

    def end_of_lease(self, ended_at: float) -> None:
        """The lease ended: all present tasks must end soon, even if another lease is granted meanwhile."""
        self._deadlines.advance(self.busy_shards(), ended_at + self._lease_stop_seconds)
        self._tasks.lease_ended(ended_at)

    def reshard(self, sharding: Sharding) -> None:
        """Puts every task, with its deadline, under the number that its shard has now."""
        self._deadlines.reshard(self._tasks.reshard(sharding))

    def forget_old_crashes(self, desired: Collection[str], now: float) -> None:
        """Forgets crashes of tasks that are healthy again or are no longer desired here."""
        self._failures.forget_old_crashes(self._tasks.by_id, desired, now)

    # ---- actions: each changes the tables and returns the command to send

    def start_host(self, action: StartHost, now: float) -> str:
        """Adds a new host and returns its name."""
        self._totals["host_starts"] += 1
        return self._hosts.starting(action.key, now)

    def end_host(self, name: str, kill_at: float, now: float) -> Exit:
        """An idle host is asked to end."""
        self._hosts.ending(name, kill_at, now)
        return Exit(id=self.next_command_id())

    def start_task(self, action: StartTask, now: float) -> Start:
        """A task is started on its host."""
        self._totals["task_starts"] += 1
        self._totals["task_restarts"] += self._failures.task_starts(action.spec)
        command = Start(
            id=self.next_command_id(), spec=action.spec, epoch=action.epoch, commit_number=action.commit_number
        )
        self._tasks.starting(action, command.id, now)
        self._hosts.busy(action.host)
        return self._commands.sent(command, command.id)

    def stop_task(self, action: StopTask, now: float) -> Stop | None:
        """A task must stop; None when it is stopping already and only gets an earlier deadline."""
        task = self._tasks.by_id[action.task_id]
        if action.reason is StopReason.START_TOOK_TOO_LONG:
            self.start_times.add(now - task.since, now)
        self._tasks.stopping(task, action.kill_at, now)
        if task.state is TaskState.STOPPING:
            return None
        return self._commands.sent(Stop(id=self.next_command_id(), task_id=task.task_id), task.start_id)

    def apply_live(self, action: ApplyLive) -> Live:
        """A live change is sent to the task's host."""
        self._tasks.live_sent(action.task_id, action.spec)
        start_id = self._tasks.by_id[action.task_id].start_id
        return self._commands.sent(Live(id=self.next_command_id(), spec=action.spec), start_id)

    def run_host_task(self, action: RunHostTaskAction) -> RunHostTask:
        """A host is given a host task."""
        self._hosts.busy(action.host)
        return self.host_tasks.assign(action, self.next_command_id())

    def adopt(self, task_id: str, spec: TaskSpec) -> None:
        """The task already runs as this spec asks."""
        self._tasks.adopted(task_id, spec)

    # ---- events of hosts

    def changes_decisions(self, event: Event) -> bool:
        """Whether an event may change the next decisions. Measurements and ignored replies cannot."""
        if isinstance(event, Reply):
            return self._commands.awaits(event.id) or self.host_tasks.awaits(event.id)
        return not isinstance(event, Progress | LoadsEvent)

    def take(self, host: str, event: Event, now: float) -> TaskView | None:
        """Takes in an event of a host. Returns the task that the event reports as fenced, if any."""
        match event:
            case Ready():
                self._host_ready(host, now)
            case Reply():
                return self._replied(host, event, now)
            case Progress():
                self._progress |= {name: each for name, each in event.tasks.items() if self._tasks.find(name, host)}
            case LoadsEvent():
                for task_id, load in event.tasks.items():
                    if self._tasks.find(task_id, host):
                        self.loads.add(task_id, load, now)
            case TaskEnded():
                return self._task_ended(host, event, now)
        return None

    def host_exited(self, name: str, how: HostExit, now: float) -> list[TaskView]:
        """The host has ended with its tasks, which are returned. Those that were not stopping have crashed."""
        host, lost = self._hosts.ended(name), self._tasks.on_host(name)
        expected = host.phase is HostPhase.ENDING
        log.log(INFO if expected else WARNING, "host ended", host=name, reason=how.reason, tasks=len(lost))
        if host.phase is HostPhase.STARTING:
            self._failures.host_failed(host.key, how.reason, now)
        # On a shared host it is unknown which task took the memory, so no task is reported as out of memory.
        failure = Failure(f"host {name} ended: {how.reason}", "retryable", how.out_of_memory and len(lost) == 1)
        for task in lost:
            self._task_failed(task, failure, now)
        self._commands.forget({task.start_id for task in lost})
        self.host_tasks.host_exited(name, how.reason)
        return lost

    # ---- details

    def _host_ready(self, name: str, now: float) -> None:
        host = self._hosts.by_name[name]
        if host.phase is HostPhase.STARTING:
            log.info("host ready", host=name, seconds=round(now - host.since, 3))
            self._hosts.ready(name, now)
            self._failures.host_ready(host.key)

    def _task_ended(self, host: str, event: TaskEnded, now: float) -> TaskView | None:
        task = self._tasks.find(event.task_id, host)
        if task is None:
            return None
        return self._task_failed(task, Failure(event.error, error_kind(event.error_kind), event.out_of_memory), now)

    def _replied(self, host: str, reply: Reply, now: float) -> TaskView | None:
        if self.host_tasks.awaits(reply.id):
            self.host_tasks.replied(reply)
            self._check_idle(host, now)
            return None
        sent = self._commands.take(reply.id)
        task = None if sent is None else self._tasks.find(sent.task_id, host)
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
            self._tasks.started(task, now)
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
            self._tasks.live_refused(task)
            return
        self._tasks.live_applied(task, command.spec)
        log.info("live change applied", task=task.task_id, revision=command.spec.revision)

    def _task_failed(self, task: TaskView, failure: Failure, now: float) -> TaskView | None:
        """A task has ended by itself, which is a crash unless it was stopping. Returns the task if it was fenced."""
        self._remove(task, now)
        if task.state is not TaskState.STOPPING:
            crash = self._failures.task_failed(task, failure, now)
            self._totals["task_crashes"] += 1
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
        return task if failure.kind == "fenced" else None

    def _remove(self, task: TaskView, now: float) -> None:
        self._tasks.ended(task)
        self._progress.pop(task.task_id, None)
        self.loads.forget(task.task_id)
        self._check_idle(task.host, now)

    def _check_idle(self, host: str, now: float) -> None:
        if not self._tasks.on_host(host) and not self.host_tasks.load()[host]:
            self._hosts.idle(host, now)
