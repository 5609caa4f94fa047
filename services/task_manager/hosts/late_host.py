"""A Spark host whose process starts once its package's environment is there, which may have to be built first."""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock.control.logs import logger
from penstock.spark.channel import Command
from services.task_manager.decide.model import HostExit
from services.task_manager.hosts.spark_host import SparkHost

log = logger(__name__)


class LateHost:
    """Behaves as the `SparkHost` that it becomes. No call blocks.

    Commands that come before are sent when the process has started: a lease says when it was sent.
    """

    def __init__(self, prepare: Callable[[], Callable[[], SparkHost]], on_exit: Callable[[], None]) -> None:
        """`prepare` takes its time, in a thread of its own, and returns what starts the process at once. `on_exit` is
        called when there will be no process; else the process's own is."""
        self._prepare = prepare
        self._on_exit = on_exit
        self._lock = threading.Lock()
        self._early: list[Command] = []
        self._host: SparkHost | None = None
        self._exit: HostExit | None = None
        threading.Thread(target=self._run, name="environment", daemon=True).start()

    def send(self, command: Command) -> None:
        """As `SparkHost.send`."""
        with self._lock:
            if self._host is None:
                self._early.append(command)
                return
        self._host.send(command)

    def kill(self) -> None:
        """As `SparkHost.kill`. An environment is built to its end, for the next host."""
        with self._lock:
            if self._host is None and self._exit is None:
                self._exit = HostExit("killed")
        if self._host is not None:
            self._host.kill()
        else:
            self._on_exit()

    def exit(self) -> HostExit | None:
        """As `SparkHost.exit`."""
        return self._exit if self._host is None else self._host.exit()

    def has_lapsed(self) -> bool:
        """As `SparkHost.has_lapsed`."""
        return self._host is not None and self._host.has_lapsed()

    def _run(self) -> None:
        try:
            start = self._prepare()
            with self._lock:
                if self._exit is None:
                    self._host = start()
                    for command in self._early:
                        self._host.send(command)
                self._early = []
        except Exception as error:  # noqa: BLE001 -- whatever it is, the host will not be there
            log.error("host not started", error=str(error))
            with self._lock:
                self._exit = self._exit or HostExit(f"no process could be made: {error}")
        if self._host is None:
            self._on_exit()
