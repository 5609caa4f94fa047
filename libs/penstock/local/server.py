"""What the two embedded servers share: one process on a folder of their own, started and stopped as a whole."""

from __future__ import annotations

import math
import signal
import subprocess
import threading
from abc import ABC, abstractmethod
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from penstock.control.errors import TerminalError
from penstock.control.logs import logger
from penstock.control.process import kill_group, stop_group, wait_until
from penstock.local.folder import OwnedFolder, end_orphan
from penstock.local.processes import how_ended, last_lines

_STOP_TIMEOUT_S = 20.0
AGAIN_TIMEOUT_S = 90.0
"""So long a server that is started again may take until it serves. Nobody watches it, and another attempt follows."""

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
        self._given_up = threading.Event()

    @abstractmethod
    def _launch(self) -> subprocess.Popen[bytes]:
        """Starts the process. The folder is owned by us."""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether the server serves its clients."""

    def start(self) -> str:
        """Start the server, wait until it serves, and return its address. On a busy machine this takes as long as it
        takes: a server that lives is waited for.

        Raises `TerminalError` when another living process owns the folder, something is missing, or the server ends
        before it serves; then with the end of its log.
        """
        if self._process is not None:
            return self.address
        self._folder.claim()
        self._given_up.clear()
        with ExitStack() as on_error:
            on_error.callback(self.stop)
            self._bring_up(math.inf)
            on_error.pop_all()
        return self.address

    @property
    def pid(self) -> int | None:
        """The process id of the present life; None while there is none."""
        return None if self._process is None else self._process.pid

    def exit_code(self) -> int | None:
        """The exit code of a server that ended by itself (negative: minus a signal); None while it lives, or was
        stopped."""
        return None if self._process is None else self._process.poll()

    def restarts_itself(self) -> bool:
        """Whether, since the last call, the server has ended and begun again within its process."""
        return False

    def start_again(self) -> None:
        """Starts the server, which has ended, on the same data and address. Its folder stays ours also when it fails.

        Raises what `start` raises; also once `give_up` was called. Raises `TimeoutError` when the server does not serve
        within `AGAIN_TIMEOUT_S`; it is ended then.
        """
        self._end_process()
        with ExitStack() as on_error:
            on_error.callback(self._end_process)
            self._bring_up(AGAIN_TIMEOUT_S)
            on_error.pop_all()

    def kill(self) -> None:
        """Ends the server at once, as a crash does. Its folder stays ours."""
        if self._process is not None:
            kill_group(self._process)

    def give_up(self) -> None:
        """Ends a `start_again` in another thread soon. Only a `start` is possible after that."""
        self._given_up.set()

    def stop(self) -> None:
        """Shut down in order; no process stays. Safe to repeat."""
        self._end_process()
        self._folder.release()

    def _bring_up(self, timeout_s: float) -> None:
        self._end_stale_server()
        self._process = self._launch()
        wait_until(self._is_ready, timeout_s, f"{self.name} to answer")
        log.info("server is ready", server=self.name, address=self.address, data=str(self._data), pid=self.pid)

    def _end_process(self) -> None:
        if self._process is not None:
            stop_group(self._process, _STOP_TIMEOUT_S, self.shutdown_signal)
            self._process = None

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
        if self._given_up.is_set():
            raise TerminalError(f"{self.name} is not wanted any more")
        code = self.exit_code()
        if code is not None:
            raise TerminalError(
                f"{self.name} ended ({how_ended(code)}) before it answered; the end of {self.log_path}:\n"
                f"{last_lines(self.log_path)}"
            )
        return self._answers()
