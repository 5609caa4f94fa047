"""The ports of the Task Manager: the table of works for the State Syncer, and what it does about tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.spark.host import client
from penstock.tasks.work import HostWork
from services.task_manager import container
from services.task_manager.actions import DoWork, StartTask, StopTask
from services.task_manager.model import WorkKey, WorkKind
from services.task_manager.works import Works, key_of
from tests.support.faults.orders import Port

TASKS: dict[type[Any], str] = {StartTask: "start task", StopTask: "stop task"}


def take_of(_: Works, request: HostWork) -> str:
    """The State Syncer asks for a work; it does so again and again."""
    return f"take {key_of(request).kind.value}"


def give_of(_: Works, action: DoWork, command_id: int) -> str:
    """A host is told of it."""
    return f"give {action.key.kind.value}"


def tell_of(works: Works, key: WorkKey) -> str | None:
    """The State Syncer is told how it ended."""
    return f"tell {key.kind.value}" if works.is_over(key) else None


def task_of(_: Any, action: Any, now: float) -> str | None:
    """A task is started or stopped."""
    return TASKS.get(type(action))


def _each(verb: str) -> tuple[str, ...]:
    return tuple(f"{verb} {kind.value}" for kind in WorkKind)


PORTS = (
    Port(Works, "ask", _each("take"), take_of),
    Port(Works, "assign", _each("give"), give_of),
    Port(Works, "answer", _each("tell"), tell_of),
    Port(container, "apply", tuple(TASKS.values()), task_of),
)


def launch_hosts(folder: str) -> None:
    """Hosts of this Task Manager are started by the launcher, too."""
    start_child = client.start_child

    def start(command: Sequence[str], **options: Any) -> Any:
        python, _, module, *arguments = command
        return start_child([python, "-m", "tests.support.faults", folder, module, *arguments], **options)

    vars(client)["start_child"] = start
