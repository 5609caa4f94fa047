"""The supervisor's side of a host: starts it, sends commands, reports how it ended. Does not import pyspark."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

from penstock.control.logs import logger
from penstock.control.process import kill_group, signal_group, start_child
from penstock.spark.channel import EVENTS, Command, Event, Ready
from penstock.spark.host.exits import ExitReason, exit_reason
from penstock.spark.host.pipes import MessageWriter, whole_lines
from penstock.spark.interpreter import command_of
from penstock.spark.settings import SparkSettings

log = logger(__name__)

EventCallback = Callable[[Event], None]
EndCallback = Callable[[ExitReason], None]


class HostProcess:
    """A running host. All methods may be called from any thread.

    The callbacks come from the thread that reads events: they must be quick and must not raise. A `TaskEnded` may
    come just before the reply to the start of its task.
    """

    def __init__(
        self, name: str, settings: SparkSettings, log_path: Path, on_event: EventCallback, on_end: EndCallback
    ) -> None:
        """Starts a host, which is useful once it is `Ready` (about 4 s). Its output is appended to `log_path`.

        `on_event` gets all events, replies included, and then `on_end` the exit reason. Raises OSError when no process
        can be made.
        """
        self._name = name
        self._on_event = on_event
        self._on_end = on_end
        self._jvm_pid: int | None = None
        self._process, commands, events = _start(name, settings, log_path)
        self._commands = MessageWriter(commands, f"{name}-commands", self._on_commands_unread)
        threading.Thread(target=self._read, args=(events,), name=f"{name}-events", daemon=True).start()

    @property
    def pid(self) -> int:
        """The host's process id, which is also its process group's."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether the process runs (it may still be starting)."""
        return self._process.poll() is None

    @property
    def exit_reason(self) -> ExitReason | None:
        """Why the host ended; None while it runs."""
        code = self._process.poll()
        return None if code is None else exit_reason(code)

    def send(self, command: Command) -> None:
        """Sends a command and returns at once; a host that has ended answers nothing."""
        self._commands.send(command)

    def kill(self) -> None:
        """Kills the host and its JVM at once; returns when the host is gone. Safe to repeat.

        The host gets its signal first. Otherwise it may see its JVM die and end by itself, as if the JVM had failed.
        """
        if self.is_alive:
            signal_group(self.pid, signal.SIGKILL)
            if self._jvm_pid is not None:
                signal_group(self._jvm_pid, signal.SIGKILL)
        kill_group(self._process)

    def _on_commands_unread(self) -> None:
        log.info("host reads no commands any more", host=self._name)

    def _read(self, events: int) -> None:
        for line in whole_lines(events):
            event = EVENTS.validate_json(line)
            if isinstance(event, Ready):
                self._jvm_pid = event.jvm_pid
            self._on_event(event)
        reason = exit_reason(self._process.wait())
        log.info("host ended", host=self._name, reason=reason.name.lower())
        self._commands.close()
        self._on_end(reason)


def _start(name: str, settings: SparkSettings, log_path: Path) -> tuple[subprocess.Popen[bytes], int, int]:
    """The host's process, and the ends of the pipes to write commands to and to read events from."""
    command_reader, command_writer = os.pipe()
    event_reader, event_writer = os.pipe()
    options = ["--commands", str(command_reader), "--events", str(event_writer), "--name", name]
    try:
        process = start_child(
            [*command_of(settings.package_environment), "-m", "penstock.spark.host", *options],
            log_path=log_path,
            env=settings.to_environment(),
            pass_fds=(command_reader, event_writer),
            user=settings.host_user,
            cwd=settings.spark_local_dir if settings.host_user is not None else None,
        )
    except OSError:
        os.close(command_writer)
        os.close(event_reader)
        raise
    finally:
        os.close(command_reader)
        os.close(event_writer)
    return process, command_writer, event_reader
