"""The ports of the Task Manager: the host tasks of the State Syncer, and what it does about tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.spark.host import client
from penstock.tasks.host_task import POLICIES, HostTask
from services.task_manager.decide.actions import ApplyLive, RunHostTask, StartTask, StopTask
from services.task_manager.decide.model import HostKey
from services.task_manager.hosts.host_tasks import AcceptedHostTasks
from services.task_manager.state import State
from tests.support.faults.orders import Port

TASKS: dict[type[Any], str] = {StartTask: "start task", StopTask: "stop task", ApplyLive: "change task"}


def take_of(_: AcceptedHostTasks, task: HostTask, host_key: HostKey, now: float) -> str:
    """The State Syncer asks for a host task; it does so again and again."""
    return f"take {task.request.kind}"


def give_of(_: AcceptedHostTasks, action: RunHostTask, command_id: int) -> str:
    """A host is told of it."""
    return f"give {_kind(action.key)}"


def tell_of(host_tasks: AcceptedHostTasks, key: str) -> str | None:
    """The State Syncer is told how it ended."""
    return f"tell {_kind(key)}" if host_tasks.is_over(key) else None


def _kind(key: str) -> str:
    return key.partition(":")[0]


def task_of(_: Any, action: Any, now: float) -> str | None:
    """A task is started, or stopped, or is to take no more rows."""
    return TASKS.get(type(action))


def _each(verb: str) -> tuple[str, ...]:
    return tuple(f"{verb} {kind}" for kind in POLICIES)


PORTS = (
    Port(AcceptedHostTasks, "ask", _each("take"), take_of),
    Port(AcceptedHostTasks, "assign", _each("give"), give_of),
    Port(AcceptedHostTasks, "answer", _each("tell"), tell_of),
    Port(State, "act", tuple(TASKS.values()), task_of),
)


def launch_hosts(folder: str) -> None:
    """Hosts of this Task Manager are started by the launcher, too."""
    start_child = client.start_child

    def start(command: Sequence[str], **options: Any) -> Any:
        at = command.index("-m") + 1
        return start_child([*command[:at], "tests.support.faults", folder, *command[at:]], **options)

    vars(client)["start_child"] = start
