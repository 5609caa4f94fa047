"""Spark hosts: settings for each host key, and a process for each host. Tests and the simulation have others."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from penstock.control.errors import BrokenTask
from penstock.control.logs import logger
from penstock.control.masks import Masks
from penstock.control.private import PRIVATE_FOLDER, give
from penstock.spark.channel import Event
from penstock.spark.dependencies import has_dependencies, require_usable
from penstock.spark.environments import Environments
from penstock.spark.packages import BUILTIN, find
from penstock.spark.settings import SparkSettings
from penstock.tasks.heap import heap_for
from services.task_manager.decide.model import HostKey
from services.task_manager.hosts.late_host import LateHost
from services.task_manager.hosts.spark_host import SparkHost

log = logger(__name__)
_SCRATCH = ".scratch"
_LOG, _BEFORE = ".log", ".before.log"


class SparkHosts:
    """Starts Spark hosts, each with `<folder>/<name>.log` and a scratch folder that is deleted when the host ends.
    Environments of packages are beside `folder`."""

    def __init__(self, settings: SparkSettings, folder: Path, masks: Masks, *, environments_bytes: int = 2**32) -> None:
        """`masks` learns each value that a host gets. `environments_bytes`: see `Environments`."""
        self._settings = settings
        self._masks = masks
        self._folder = folder
        root = folder.parent / "environments"
        self._environments = Environments(root, environments_bytes, for_all=settings.host_user is not None)
        for scratch in folder.glob(f"*{_SCRATCH}"):
            shutil.rmtree(scratch, ignore_errors=True)
        _put_aside(folder)

    def start(
        self, name: str, key: HostKey, on_event: Callable[[str, Event], None], on_exit: Callable[[], None]
    ) -> SparkHost | LateHost:
        """Starts a host and returns at once. One whose package has dependencies starts in their environment, when it is
        built.

        Raises OSError when no process can be made, and BrokenTask when there is no such package: a host without it
        could run none of its tasks.

        `on_event` is called from a thread of the host, `on_exit` soon after its end.
        """
        package = _package_of(key, self._settings)
        make = partial(self._make, name, settings_for(key, self._settings), on_event)
        if package is None or not _has_dependencies(package):
            return make(on_exit)

        def over() -> None:
            self._environments.release(name)
            on_exit()

        def prepare() -> Callable[[], SparkHost]:
            return partial(make, over, self._environment(package, name))

        return LateHost(prepare, over)

    def _environment(self, package: Path, host: str) -> Path | None:
        """None for a package that can have none: its tasks say why when they start, as do analyses."""
        try:
            require_usable(package, self._settings.spark_master)
        except BrokenTask as error:
            log.warning("no environment", package=package.name, host=host, reason=error.detail)
            return None
        return self._environments.take(package, host)

    def _make(
        self,
        name: str,
        settings: SparkSettings,
        on_event: Callable[[str, Event], None],
        on_exit: Callable[[], None],
        environment: Path | None = None,
    ) -> SparkHost:
        scratch = self._folder / f"{name}{_SCRATCH}"
        scratch.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        if settings.host_user is not None:
            give(scratch, settings.host_user)
        own = settings.model_copy(update={"spark_local_dir": scratch, "package_environment": environment})
        return SparkHost(name, own, self._folder / f"{name}{_LOG}", self._masks, on_event, on_exit)


def _package_of(key: HostKey, settings: SparkSettings) -> Path | None:
    name, version, _ = key.package
    return None if name == BUILTIN else find(name, version, settings.packages_root)


def _has_dependencies(package: Path) -> bool:
    """False for what is no archive: its tasks say so."""
    return zipfile.is_zipfile(package) and has_dependencies(package)


def _put_aside(folder: Path) -> None:
    """Logs of a former process, whose hosts had the same names. Which values were secret then is not known here."""
    for before in [path for path in folder.glob(f"*{_LOG}") if not path.name.endswith(_BEFORE)]:
        before.replace(before.with_name(before.name.removesuffix(_LOG) + _BEFORE))


def settings_for(key: HostKey, shared: SparkSettings) -> SparkSettings:
    """The container's Spark settings, with the heap of an isolated task and the job's static settings."""
    heap_bytes = heap_for(key.memory_bytes) if key.memory_bytes else shared.heap_bytes
    spark_conf = {**dict(key.static_settings), **shared.spark_conf}
    return shared.model_copy(update={"heap_bytes": heap_bytes, "spark_conf": spark_conf})
