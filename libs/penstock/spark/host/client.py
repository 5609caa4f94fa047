"""The supervisor's side of a host: starts it, sends commands, reports how it ended. Does not import pyspark."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

from penstock.control.clock import SystemClock
from penstock.control.errors import Unavailable
from penstock.control.logs import logger
from penstock.control.process import kill_group, signal_group, start_child
from penstock.spark.channel import EVENTS, Command, Event, Lease, Ready, Reply
from penstock.spark.host.exits import ExitReason, exit_reason
from penstock.spark.host.pipes import MessageWriter, whole_lines
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
        self,
        name: str,
        settings: SparkSettings,
        *,
        log_path: Path,
        on_event: EventCallback = lambda event: None,
        on_end: EndCallback = lambda reason: None,
    ) -> None:
        """Starts a host, which is useful once `ready` is done (about 4 s). Its output is appended to `log_path`.

        `on_event` gets the events that are no replies (Ready, Progress, TaskEnded); `on_end` gets the exit reason once.
        """
        self.name = name
        self.ready: Future[Ready] = Future()
        self._on_event = on_event
        self._on_end = on_end
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        self._pending: dict[int, Future[Reply]] = {}
        self._ended: ExitReason | None = None
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

    def send(self, command: Command) -> Future[Reply]:
        """Sends a command and returns at once; its `id` is replaced by the next free one.

        The future gets the reply, or Unavailable when the host ends before it has answered. A `Lease` without
        `sent_at` counts from now.
        """
        numbered = command.model_copy(update={"id": next(self._ids), **_sending_time(command)})
        answer: Future[Reply] = Future()
        with self._lock:
            ended = self._ended
            if ended is None:
                self._pending[numbered.id] = answer
        if ended is not None:
            answer.set_exception(_gone(self.name, ended))
            return answer
        self._commands.send(numbered)
        return answer

    def kill(self) -> None:
        """Kills the host and its JVM at once; returns when the host is gone. Safe to repeat.

        The host gets its signal first. Otherwise it may see its JVM die and end by itself, as if the JVM had failed.
        """
        if self.is_alive:
            signal_group(self.pid, signal.SIGKILL)
            if self.ready.done() and not self.ready.exception():
                signal_group(self.ready.result().jvm_pid, signal.SIGKILL)
        kill_group(self._process)

    def _on_commands_unread(self) -> None:
        log.info("host reads no commands any more", host=self.name)

    def _read(self, events: int) -> None:
        for line in whole_lines(events):
            self._take(EVENTS.validate_json(line))
        self._finish(exit_reason(self._process.wait()))

    def _take(self, event: Event) -> None:
        if isinstance(event, Reply):
            with self._lock:
                answer = self._pending.pop(event.id)
            answer.set_result(event)
            return
        if isinstance(event, Ready):
            self.ready.set_result(event)
        self._on_event(event)

    def _finish(self, reason: ExitReason) -> None:
        log.info("host ended", host=self.name, reason=reason.name.lower())
        with self._lock:
            self._ended = reason
            unanswered, self._pending = list(self._pending.values()), {}
        self._commands.close()
        for answer in unanswered:
            answer.set_exception(_gone(self.name, reason))
        if not self.ready.done():
            self.ready.set_exception(_gone(self.name, reason))
        self._on_end(reason)


def _start(name: str, settings: SparkSettings, log_path: Path) -> tuple[subprocess.Popen[bytes], int, int]:
    """The host's process, and the ends of the pipes to write commands to and to read events from."""
    command_reader, command_writer = os.pipe()
    event_reader, event_writer = os.pipe()
    options = ["--commands", str(command_reader), "--events", str(event_writer), "--name", name]
    try:
        process = start_child(
            [sys.executable, "-m", "penstock.spark.host", *options],
            log_path=log_path,
            env=settings.to_environment(),
            pass_fds=(command_reader, event_writer),
        )
    except OSError:
        os.close(command_writer)
        os.close(event_reader)
        raise
    finally:
        os.close(command_reader)
        os.close(event_writer)
    return process, command_writer, event_reader


def _sending_time(command: Command) -> dict[str, float]:
    return {"sent_at": SystemClock().monotonic()} if isinstance(command, Lease) and command.sent_at is None else {}


def _gone(name: str, reason: ExitReason) -> Unavailable:
    return Unavailable(f"the host {name} has ended: {reason.name.lower()}", reason=reason.name.lower())
