"""The container's Spark hosts and their phases. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import count

from services.task_manager.decide.model import HostKey, HostPhase, HostView


class HostTable:
    """Hosts by name. A host that has ended is not listed."""

    def __init__(self, container: str) -> None:
        self._container = container
        self._numbers = count(1)
        self._hosts: dict[str, HostView] = {}

    @property
    def by_name(self) -> Mapping[str, HostView]:
        """All hosts; the map changes with the next event."""
        return self._hosts

    def starting(self, key: HostKey, now: float) -> str:
        """A host is started. Returns its name, which no other host of this process has had."""
        name = f"{self._container}-host-{next(self._numbers)}"
        self._hosts[name] = HostView(name, key, HostPhase.STARTING, now, now)
        return name

    def ready(self, name: str, now: float) -> None:
        """The host's Spark session is up."""
        self._hosts[name] = replace(self._hosts[name], phase=HostPhase.READY, since=now, idle_since=now)

    def busy(self, name: str) -> None:
        """The host was given a task or a host task."""
        self._hosts[name] = replace(self._hosts[name], idle_since=None)

    def idle(self, name: str, now: float) -> None:
        """The host has nothing to do any more; ignored when the host has ended."""
        if name in self._hosts:
            self._hosts[name] = replace(self._hosts[name], idle_since=now)

    def ending(self, name: str, kill_at: float, now: float) -> None:
        """The host was asked to end, and is killed at `kill_at`."""
        self._hosts[name] = replace(self._hosts[name], phase=HostPhase.ENDING, since=now, kill_at=kill_at)

    def ended(self, name: str) -> HostView:
        """The host has ended. Returns what it was."""
        return self._hosts.pop(name)
