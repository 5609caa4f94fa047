"""Commands to hosts that wait for a reply. Pure."""

from __future__ import annotations

from collections.abc import Collection
from itertools import count
from typing import NamedTuple, TypeVar

from penstock.spark.channel import Live, Start, Stop

TaskCommand = Start | Stop | Live
C = TypeVar("C", Start, Stop, Live)


class SentCommand(NamedTuple):
    """A command about one run of a task; `start_id` is the id of the command that started this run."""

    command: TaskCommand
    start_id: int

    @property
    def task_id(self) -> str:
        """The task that the command is about."""
        return self.command.task_id if isinstance(self.command, Stop) else self.command.spec.task_id


class SentCommands:
    """Numbers all commands of the container and remembers those about tasks until their reply."""

    def __init__(self) -> None:
        self._ids = count(1)
        self._waiting: dict[int, SentCommand] = {}

    def next_id(self) -> int:
        """An id that no command has had."""
        return next(self._ids)

    def sent(self, command: C, start_id: int) -> C:
        """Remembers a command until its reply and returns it."""
        self._waiting[command.id] = SentCommand(command, start_id)
        return command

    def awaits(self, command_id: int) -> bool:
        """Whether a reply to this command is expected."""
        return command_id in self._waiting

    def take(self, command_id: int) -> SentCommand | None:
        """The command that a reply belongs to, which is forgotten; None when no reply was expected."""
        return self._waiting.pop(command_id, None)

    def forget(self, start_ids: Collection[int]) -> None:
        """These runs of tasks have ended with their host: no reply will come."""
        self._waiting = {number: sent for number, sent in self._waiting.items() if sent.start_id not in start_ids}
