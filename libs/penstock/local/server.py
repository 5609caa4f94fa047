"""What the two embedded servers share: one process on a folder of their own, started and stopped as a whole."""

from __future__ import annotations

import signal
import subprocess
from abc import ABC, abstractmethod
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from penstock.control.errors import TerminalError
from penstock.control.logs import logger
from penstock.control.process import stop_group, wait_until
from penstock.local.folder import OwnedFolder, end_orphan

_START_TIMEOUT_S = 90.0
_STOP_TIMEOUT_S = 20.0

log = logger(__name__)


class EmbeddedServer(ABC):
    """A server process on `data_dir`, which survives it. Use as a context manager, or call `start()` and `stop()`.

    Both may be repeated on one object. `shutdown_signal` is what makes the server shut down in order. `pid_file` in its
    folder has its pid, and its command line has `words`.
    """

    name: str
    pid_file: str
    shutdown_signal: signal.Signals

    def __init__(self, data_dir: Path, address: str, log_path: Path, words: list[str]) -> None:
        self.address = address
        self.log_path = log_path
        self._data = data_dir
        self._words = words
        self._folder = OwnedFolder(data_dir)
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def _launch(self) -> subprocess.Popen[bytes]:
        """Starts the process. The folder is owned by us."""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether the server serves its clients."""

    def start(self) -> str:
        """Start the server, wait until it serves, and return its address.

        Raises `TerminalError` when another living process owns the folder, something is missing, or the server ends at
        once; `TimeoutError` when it does not serve in time.
        """
        if self._process is not None:
            return self.address
        self._folder.claim()
        with ExitStack() as on_error:
            on_error.callback(self.stop)
            self._end_stale_server()
            self._process = self._launch()
            wait_until(self._is_ready, _START_TIMEOUT_S, f"{self.name} to answer")
            on_error.pop_all()
        log.info("server is ready", server=self.name, address=self.address, data=str(self._data), pid=self._process.pid)
        return self.address

    def stop(self) -> None:
        """Shut down in order; no process stays. Safe to repeat."""
        if self._process is not None:
            stop_group(self._process, _STOP_TIMEOUT_S, self.shutdown_signal)
            self._process = None
        self._folder.release()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _end_stale_server(self) -> None:
        """We own the folder, so a server that still runs on it has lost its owner."""
        record = self._data / self.pid_file
        if record.exists():
            end_orphan(int(record.read_text().split()[0]), self._words, self.shutdown_signal, _STOP_TIMEOUT_S)

    def _is_ready(self) -> bool:
        if self._process is not None and self._process.poll() is not None:
            raise TerminalError(f"{self.name} ended at once:\n{self.log_path.read_text()[-2000:]}")
        return self._answers()
