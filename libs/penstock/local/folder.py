"""Who owns the data folder of an embedded server, and what to do about a server whose owner died.

An owner holds an advisory lock (`flock`) on `<folder>.lock` as long as it lives: the kernel releases it however the
owner ends. So whoever gets the lock knows that a server still running on the folder has lost its owner.
"""

from __future__ import annotations

import fcntl
import os
import signal
from pathlib import Path

from penstock.control.errors import TerminalError
from penstock.control.logs import logger
from penstock.control.private import make_private
from penstock.control.process import wait_until
from penstock.local.processes import find_process

log = logger(__name__)


class OwnedFolder:
    """A folder that at most one living process owns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None

    def claim(self) -> None:
        """Become the owner, or raise `TerminalError` when another living process (or object) is. Other accounts may not
        enter the folder."""
        make_private(self.path)
        handle = os.open(self.path.with_name(self.path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(handle)
            raise TerminalError(
                f"{self.path} is in use by another process: two stacks need two folders (`penstock up --data-dir`)"
            ) from error
        self._lock = handle

    def release(self) -> None:
        """Stop being the owner; the lock's file stays. Safe to repeat."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def end_orphan(pid: int, words: list[str], first_signal: signal.Signals, timeout_s: float) -> bool:
    """End the process `pid` if its command line holds all of `words`; True when there was such a process.

    It gets `first_signal`, then, after `timeout_s` seconds, SIGKILL. A pid that was reused by another program does
    not have the words, and is left alone.
    """
    process = find_process(pid, words)
    if process is None:
        return False
    log.warning("ending a server whose owner died", pid=pid)
    process.send_signal(first_signal)
    try:
        wait_until(lambda: find_process(pid, words) is None, timeout_s, f"process {pid} to end")
    except TimeoutError:
        process.kill()
        wait_until(lambda: find_process(pid, words) is None, timeout_s, f"process {pid} to die")
    return True
