"""Keeps the processes of one machine alive: starts them, restarts those that end, stops them all.

What systemd or Kubernetes does in a cluster, `penstock up` does here. A process that ends soon after its start is
started again later and later, so that a broken one does not take the machine.
"""

from __future__ import annotations

import math
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx

from penstock.control.errors import TerminalError
from penstock.control.private import PRIVATE_UMASK
from penstock.control.process import kill_group, start_child, stop_group, wait_until
from penstock.local.processes import how_ended, last_lines
from penstock.wire.http import certificates

_WATCH_S = 0.2
_HEALTHY_AFTER_S = 30.0
_LONGEST_PAUSE_S = 10.0
_STOP_S = 15.0
# The first end may be due to what is left of an earlier life.
_MOST_ENDS = 3


@dataclass(frozen=True)
class ProcessSpec:
    """One process: its command, environment and the address that answers 200 when it is ready."""

    name: str
    command: tuple[str, ...]
    env: Mapping[str, str]
    ready_url: str


@dataclass
class _Child:
    spec: ProcessSpec
    process: subprocess.Popen[bytes]
    started_at: float
    ends: int = 0
    last_end: str = ""
    quick_ends: int = 0
    start_again_at: float | None = None


def pause_seconds(quick_ends: int) -> float:
    """Seconds before the restart of a process that ended soon after its start `quick_ends` times in a row."""
    return float(min(_LONGEST_PAUSE_S, 0.25 * 2 ** min(quick_ends, 10)))


class Supervisor:
    """The processes of one machine. `on_event(text)` gets a line for every end and restart."""

    def __init__(self, log_dir: Path, on_event: Callable[[str], None]) -> None:
        self._log_dir = log_dir
        self._on_event = on_event
        self._children: dict[str, _Child] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="supervisor", daemon=True)

    def start(self, specs: tuple[ProcessSpec, ...]) -> None:
        """Starts all and begins to watch them."""
        for spec in specs:
            self._children[spec.name] = _Child(spec, self._spawn(spec), time.monotonic())
        self._watcher.start()

    def wait_ready(self, name: str, timeout_s: float = math.inf) -> float:
        """Waits until a process answers as ready, as long as it lives; seconds since its start.

        Raises TerminalError with the end of its log when it has ended three times meanwhile, TimeoutError.
        """
        child, log_path = self._children[name], self.log_path(name)
        before = child.ends

        def is_ready() -> bool:
            """Whether it answers; raises TerminalError once it has ended too often."""
            if child.ends - before >= _MOST_ENDS:
                raise TerminalError(
                    f"{name} ended {_MOST_ENDS} times before it was ready ({child.last_end}); the "
                    f"end of {log_path}:\n{last_lines(log_path)}"
                )
            return _answers(child.spec.ready_url)

        wait_until(is_ready, timeout_s, f"{name} to be ready (see {log_path})")
        return time.monotonic() - child.started_at

    def pid(self, name: str) -> int:
        """The process id of the present life of a process."""
        with self._lock:
            return self._children[name].process.pid

    def take_down(self, name: str) -> None:
        """Kills a process (`kill -9` of its whole group) and leaves it down until `bring_up`."""
        child = self._children[name]
        with self._lock:
            child.start_again_at = math.inf
            kill_group(child.process)

    def bring_up(self, name: str) -> None:
        child = self._children[name]
        with self._lock:
            child.start_again_at = time.monotonic()

    def log_path(self, name: str) -> Path:
        return self._log_dir / f"{name}.log"

    def stop(self) -> None:
        """Stops all, last started first, each with its whole process group."""
        self._stopping.set()
        if self._watcher.is_alive():
            self._watcher.join()
        for child in reversed(self._children.values()):
            child.process.terminate()
        for child in reversed(self._children.values()):
            stop_group(child.process, _STOP_S)

    def _spawn(self, spec: ProcessSpec) -> subprocess.Popen[bytes]:
        log_path = self.log_path(spec.name)
        return start_child(spec.command, env=spec.env, log_path=log_path, umask=PRIVATE_UMASK)

    def _watch(self) -> None:
        while not self._stopping.wait(_WATCH_S):
            for child in list(self._children.values()):
                with self._lock:
                    news = self._look_after(child)
                if news is not None:
                    self._on_event(news)

    def _look_after(self, child: _Child) -> str | None:
        """A line about the end of a process and what follows; None when there is nothing to say."""
        if child.process.poll() is None:
            return None
        now = time.monotonic()
        if child.start_again_at is None:
            kill_group(child.process)  # what it started and left behind would meet its next life
            child.ends, child.last_end = child.ends + 1, how_ended(child.process.returncode)
            quick = now - child.started_at < _HEALTHY_AFTER_S
            child.quick_ends = child.quick_ends + 1 if quick else 0
            child.start_again_at = now + pause_seconds(child.quick_ends)
            return f"{child.spec.name} ended ({child.last_end})"
        if now < child.start_again_at:
            return None
        child.process = self._spawn(child.spec)
        child.started_at, child.start_again_at = now, None
        return f"{child.spec.name} started again (pid {child.process.pid})"


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2.0, verify=certificates()).status_code == 200
    except httpx.HTTPError:
        return False
