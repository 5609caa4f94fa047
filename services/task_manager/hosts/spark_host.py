"""One Spark host: a `HostProcess`, with what its jobs may use and how it ended."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import BinaryIO

from penstock.control.masks import Masks
from penstock.spark.access import kept_values, values_in, with_access
from penstock.spark.channel import Command, Event, Prepare, RunHostTask, Start
from penstock.spark.host.client import HostProcess
from penstock.spark.host.exits import ExitReason
from penstock.spark.settings import SparkSettings
from services.task_manager.decide.model import HostExit
from services.task_manager.hosts.last_words import TAIL_BYTES, last_words

_BY_ERROR = (ExitReason.CRASHED, ExitReason.JVM_DIED, ExitReason.NOT_STARTED)


class SparkHost:
    """One `HostProcess`. No call blocks.

    Replies become events, so that all messages of a host arrive in one stream and in order.
    """

    def __init__(
        self,
        name: str,
        settings: SparkSettings,
        log_path: Path,
        masks: Masks,
        on_event: Callable[[str, Event], None],
        on_exit: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._masks = masks
        self._scratch = settings.spark_local_dir
        self._log_path = log_path
        self._on_exit = on_exit
        self._exit: HostExit | None = None
        self._process = HostProcess(name, settings, log_path, partial(on_event, name), self._on_end)

    def send(self, command: Command) -> None:
        """Sends a command, with what its job may use; ignored when the host has ended."""
        whole = with_access(command, self._settings)
        if isinstance(whole, Start | Prepare | RunHostTask):
            self._masks.add(values_in(whole.access))
        self._process.send(whole)

    def kill(self) -> None:
        """Kills the host with all its processes."""
        self._process.kill()

    def exit(self) -> HostExit | None:
        """How it ended; None while any of its processes may live, and until all its events have been handled."""
        return self._exit

    def has_lapsed(self) -> bool:
        """Whether it has ended itself because its lease ran out; may be true before `exit` returns a value."""
        return self._process.exit_reason is ExitReason.LEASE_LOST

    def _on_end(self, reason: ExitReason) -> None:
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
        self._exit = HostExit(
            reason=reason.name.lower().replace("_", " "),
            out_of_memory=reason is ExitReason.OUT_OF_MEMORY,
            lease_ran_out=reason is ExitReason.LEASE_LOST,
            last_words=self._last_words() if reason in _BY_ERROR else "",
        )
        self._on_exit()

    def _last_words(self) -> str:
        """Empty, too, where the values to hide cannot be read."""
        try:
            with self._log_path.open("rb") as file:
                said = _tail(file).decode(errors="replace")
            self._masks.add(kept_values(self._settings))
        except OSError:
            return ""
        return last_words(self._masks.apply(said))


def _tail(file: BinaryIO) -> bytes:
    """The end of a log, from the beginning of a line on: a value that is cut in two would not be found."""
    begin = max(0, file.seek(0, 2) - TAIL_BYTES)
    file.seek(begin)
    if begin > 0:
        file.readline()
    return file.read()
