"""What an action asks of host processes. `hosts.host_pool` carries it out."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.spark.channel import Command
from services.task_manager.decide.actions import KillHost
from services.task_manager.decide.model import HostKey


@dataclass(frozen=True, slots=True)
class Spawn:
    """Start a host process."""

    name: str
    key: HostKey


@dataclass(frozen=True, slots=True)
class Send:
    """Send a command to a host."""

    host: str
    command: Command


Effect = Spawn | Send | KillHost
