"""Hosts that carry out their commands when the test says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from penstock.model.reports import TaskProgress
from penstock.spark.channel import (
    CancelHostTask,
    Command,
    Event,
    Exit,
    Live,
    Loads,
    Progress,
    Ready,
    Reply,
    RunHostTask,
    Start,
    Stop,
    TaskEnded,
)
from penstock.spark.channel import Lease as LeaseCommand
from penstock.tasks.host_task import ANALYSE, REDISTRIBUTE, TAKE_SAVEPOINT
from services.task_manager.decide.model import HostExit, HostKey

REPORTS: Mapping[str, dict[str, Any]] = {
    REDISTRIBUTE: {"state_rows": 3},
    ANALYSE: {"columns": {"dest": "string"}},
    TAKE_SAVEPOINT: {"tasks": [{"index": 0, "batch": 7}], "bytes": 11},
}


class FakeHost:
    """A host that carries out its commands when `answer` is called.

    A `stuck` host answers nothing and says nothing. `endless` tasks neither stop nor start as long as they are named
    there. While not `is_heard`, `exit` does not return its end yet. Like a real host it answers every command once, and
    no command after its end.
    """

    def __init__(
        self, name: str, key: HostKey, on_event: Callable[[str, Event], None], on_exit: Callable[[], None]
    ) -> None:
        self.name = name
        self.key = key
        self.stuck = False
        self.endless: set[str] = set()
        self.is_heard = True
        self.ready = False
        self.tasks: dict[str, Start] = {}
        self.sent: list[Command] = []
        self.leases: list[LeaseCommand] = []
        self.how: HostExit | None = None
        self.refuse: dict[str, str] = {}
        self.refuse_host_tasks: str | None = None
        self._unanswered: list[Command] = []
        self._on_event = on_event
        self._on_exit = on_exit

    def send(self, command: Command) -> None:
        self.sent.append(command)
        if isinstance(command, LeaseCommand):
            self.leases.append(command)
        self._unanswered.append(command)

    def kill(self) -> None:
        self.die("killed")

    def exit(self) -> HostExit | None:
        return self.how if self.is_heard else None

    def has_lapsed(self) -> bool:
        return self.how is not None and self.how.lease_ran_out

    def die(self, reason: str, *, out_of_memory: bool = False, lease_ran_out: bool = False) -> None:
        if self.how is None:
            self.tasks.clear()
            self.how = HostExit(reason, out_of_memory, lease_ran_out)
            self._on_exit()

    def become_ready(self) -> None:
        self.ready = True
        self._on_event(self.name, Ready(pid=1, jvm_pid=2))

    def speak(self, progress: Mapping[str, TaskProgress] | None = None) -> None:
        """Sends what its JVM tells of its tasks, if it can: a real host does so once a second."""
        if self.ready and not self.stuck and self.how is None:
            self._on_event(self.name, Progress(tasks=dict(progress or {})))

    def measure(self, loads: dict[str, dict[str, float]]) -> None:
        """Sends what its tasks use."""
        self._on_event(self.name, Loads(tasks=loads))

    def end_task(self, name: str, kind: str = "retryable") -> None:
        del self.tasks[name]
        self._on_event(self.name, TaskEnded(task_id=name, error="boom", error_kind=kind))

    def answer(self) -> None:
        """Becomes ready if need be and carries out all commands."""
        if self.stuck or self.how is not None:
            return
        if not self.ready:
            self.become_ready()
        commands, self._unanswered = self._unanswered, []
        for command in commands:
            if self._hangs(command):
                self._unanswered.append(command)
            elif self.how is None:
                self._carry_out(command)

    def _hangs(self, command: Command) -> bool:
        name = (
            command.task_id if isinstance(command, Stop) else command.spec.task_id if isinstance(command, Start) else ""
        )
        return name in self.endless

    def _carry_out(self, command: Command) -> None:
        kind = self._refusal(command)
        if kind is not None:
            self._reply(command, kind=kind)
            return
        match command:
            case Start():
                self.tasks[command.spec.task_id] = command
            case Stop():
                self.tasks.pop(command.task_id, None)
            case Live():
                kept = self.tasks[command.spec.task_id]
                self.tasks[command.spec.task_id] = kept.model_copy(update={"spec": command.spec})
        self._reply(command)
        if isinstance(command, Exit):
            self.die("asked")

    def _refusal(self, command: Command) -> str | None:
        match command:
            case Start(spec=spec) if spec.task_id in self.refuse:
                return self.refuse[spec.task_id]
            case Start(spec=spec, epoch=epoch) if spec.task_id in self.tasks:
                known = self.tasks[spec.task_id]
                return None if (known.spec, known.epoch) == (spec, epoch) else "retryable"
            case RunHostTask():
                return self._refusal_of(command)
            case Live(spec=spec) if spec.task_id not in self.tasks:
                return "retryable"
        return None

    def _refusal_of(self, command: RunHostTask) -> str | None:
        """As a real host: a task that was cancelled before it began fails."""
        cancelled = {each.key for each in self.sent if isinstance(each, CancelHostTask)}
        return "retryable" if command.task.key in cancelled else self.refuse_host_tasks

    def _reply(self, command: Command, kind: str | None = None) -> None:
        result: dict[str, Any] = {}
        if isinstance(command, RunHostTask):
            result = REPORTS.get(command.task.request.kind, {})
        reply = Reply(id=command.id, ok=kind is None, error=kind and f"is {kind}", error_kind=kind, result=result)
        self._on_event(self.name, reply)


class FakeHosts:
    """As `SparkHosts`: all hosts that were ever started, by name. While `broken`, no host can be started."""

    def __init__(self) -> None:
        self.all: dict[str, FakeHost] = {}
        self.broken = False

    def start(
        self, name: str, key: HostKey, on_event: Callable[[str, Event], None], on_exit: Callable[[], None]
    ) -> FakeHost:
        if self.broken:
            raise OSError("no more processes")
        self.all[name] = FakeHost(name, key, on_event, on_exit)
        return self.all[name]

    def speak(self) -> None:
        """Every host that can sends a word."""
        for host in self.alive():
            host.speak()

    def alive(self) -> list[FakeHost]:
        return [host for host in self.all.values() if host.how is None]

    def running(self) -> dict[str, Start]:
        """The start commands of all tasks that run, by id."""
        return {name: start for host in self.alive() for name, start in host.tasks.items()}
