"""What the two embedded servers share: one process on a folder of their own, started and stopped as a whole."""

from __future__ import annotations

import signal
import subprocess
from abc import ABC, abstractmethod
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from penstock.control.errors import TerminalError
from penstock.control.process import stop_group
from penstock.local.folder import OwnedFolder

STOP_TIMEOUT_S = 20.0


class EmbeddedServer(ABC):
    """A server process on `data_dir`, which survives it. Use as a context manager, or call `start()` and `stop()`.

    Both may be repeated on one object. `shutdown_signal` is what makes the server shut down in order.
    """

    shutdown_signal: signal.Signals

    def __init__(self, data_dir: Path) -> None:
        self._data = data_dir.absolute()
        self._folder = OwnedFolder(self._data)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    @abstractmethod
    def address(self) -> str:
        """What clients connect to."""

    @property
    @abstractmethod
    def log_path(self) -> Path:
        """The server's log."""

    @abstractmethod
    def _launch(self) -> None:
        """Sets `_process` and waits until it serves. The folder is owned by us."""

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
            self._launch()
            on_error.pop_all()
        return self.address

    def stop(self) -> None:
        """Shut down in order; no process stays. Safe to repeat."""
        if self._process is not None:
            stop_group(self._process, STOP_TIMEOUT_S, self.shutdown_signal)
            self._process = None
        self._folder.release()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _require_alive(self, name: str) -> None:
        """Raises `TerminalError` with the end of the log when the process has ended."""
        if self._process is not None and self._process.poll() is not None:
            raise TerminalError(f"{name} ended at once:\n{self.log_path.read_text()[-2000:]}")
