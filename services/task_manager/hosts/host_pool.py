"""The processes of the hosts that `State` lists by name: performs effects and detects the end of hosts."""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock.control.errors import BrokenTask
from penstock.control.logs import logger
from penstock.spark.channel import Event
from services.task_manager.decide.actions import KillHost
from services.task_manager.decide.effects import Effect, Send, Spawn
from services.task_manager.decide.model import HostExit
from services.task_manager.hosts.late_host import LateHost
from services.task_manager.hosts.spark_host import SparkHost
from services.task_manager.hosts.spark_hosts import SparkHosts

log = logger(__name__)


class HostPool:
    """Host processes by name. `on_event` and `on_exit` are called from threads of the hosts."""

    def __init__(self, hosts: SparkHosts, on_event: Callable[[str, Event], None], on_exit: Callable[[], None]) -> None:
        self._hosts = hosts
        self._on_event = on_event
        self._on_exit = on_exit
        self._lock = threading.Lock()
        self._handles: dict[str, SparkHost | LateHost] = {}
        self._not_started: dict[str, HostExit] = {}

    def perform(self, effect: Effect) -> None:
        """Carries out an effect; ignores one on a host that has ended."""
        if isinstance(effect, Spawn):
            self._spawn(effect)
            return
        with self._lock:
            handle = self._handles.get(effect.host)
        if handle is not None:
            match effect:
                case Send():
                    handle.send(effect.command)
                case KillHost():
                    handle.kill()

    def take_ended(self) -> dict[str, HostExit]:
        """The hosts that have ended since the last call, with how they ended; they are forgotten here."""
        with self._lock:
            ended, self._not_started = dict(self._not_started), {}
            for name, handle in list(self._handles.items()):
                how = handle.exit()
                if how is not None:
                    ended[name] = how
                    del self._handles[name]
        return ended

    def lapsed(self) -> frozenset[str]:
        """The hosts that have ended because their lease ran out and were not yet returned by `take_ended`."""
        with self._lock:
            return frozenset(name for name, handle in self._handles.items() if handle.has_lapsed())

    def kill_all(self) -> None:
        """Kills every host."""
        with self._lock:
            handles = list(self._handles.values())
        for handle in handles:
            handle.kill()

    def _spawn(self, effect: Spawn) -> None:
        try:
            handle = self._hosts.start(effect.name, effect.key, self._on_event, self._on_exit)
        except OSError as error:
            self._fail(effect.name, f"no process could be made: {error}")
        except BrokenTask as error:
            self._fail(effect.name, error.detail)
        else:
            with self._lock:
                self._handles[effect.name] = handle
        self._on_exit()

    def _fail(self, name: str, reason: str) -> None:
        log.error("host not started", host=name, error=reason)
        with self._lock:
            self._not_started[name] = HostExit(reason)
