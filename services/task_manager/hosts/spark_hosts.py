"""Spark hosts: settings for each host key, and a `HostProcess` for each host. Tests and the simulation have others."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from penstock.control.masks import Masks
from penstock.control.private import PRIVATE_FOLDER, give
from penstock.spark.access import values_in, with_access
from penstock.spark.channel import Command, Event, Prepare, RunHostTask, Start
from penstock.spark.host.client import HostProcess
from penstock.spark.host.exits import ExitReason
from penstock.spark.packages import BUILTIN, find
from penstock.spark.settings import SparkSettings
from penstock.tasks.heap import heap_for
from services.task_manager.decide.model import HostExit, HostKey

_SCRATCH = ".scratch"
_LOG, _BEFORE = ".log", ".before.log"


class SparkHosts:
    """Starts Spark hosts, each with `<folder>/<name>.log` and a scratch folder that is deleted when the host ends."""

    def __init__(self, settings: SparkSettings, folder: Path, masks: Masks) -> None:
        """`masks` learns each value that a host gets."""
        self._settings = settings
        self._masks = masks
        self._folder = folder
        for scratch in folder.glob(f"*{_SCRATCH}"):
            shutil.rmtree(scratch, ignore_errors=True)
        _put_aside(folder)

    def start(
        self, name: str, key: HostKey, on_event: Callable[[str, Event], None], on_exit: Callable[[], None]
    ) -> SparkHost:
        """Starts a host and returns at once.

        Raises OSError when no process can be made, and BrokenTask when there is no such package: a host without it
        could run none of its tasks.

        `on_event` is called from a thread of the host, `on_exit` soon after its end.
        """
        package, version, _ = key.package
        if package != BUILTIN:
            find(package, version, self._settings.packages_root)
        scratch = self._folder / f"{name}{_SCRATCH}"
        scratch.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        if self._settings.host_user is not None:
            give(scratch, self._settings.host_user)
        settings = settings_for(key, self._settings).model_copy(update={"spark_local_dir": scratch})
        return SparkHost(name, settings, self._folder / f"{name}{_LOG}", self._masks, on_event, on_exit)


def _put_aside(folder: Path) -> None:
    """Logs of a former process, whose hosts had the same names. Which values were secret then is not known here."""
    for before in [path for path in folder.glob(f"*{_LOG}") if not path.name.endswith(_BEFORE)]:
        before.replace(before.with_name(before.name.removesuffix(_LOG) + _BEFORE))


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
        )
        self._on_exit()


def settings_for(key: HostKey, shared: SparkSettings) -> SparkSettings:
    """The container's Spark settings, with the heap of an isolated task and the job's static settings."""
    heap_bytes = heap_for(key.memory_bytes) if key.memory_bytes else shared.heap_bytes
    spark_conf = {**dict(key.static_settings), **shared.spark_conf}
    return shared.model_copy(update={"heap_bytes": heap_bytes, "spark_conf": spark_conf})
