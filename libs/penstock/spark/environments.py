"""Environments of packages with dependencies: one Python for each set of wheels, in `<root>/<digest>`.

An environment appears whole, by a rename, and never changes: what was half built when a process died is removed. So is
all that was built before the machine last started, for not all of it may have reached the disk. Those that no host
holds are removed when all together take more than a limit, the one first that was not used for longest. No pyspark is
imported here.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import tempfile
import threading
import zipfile
from collections import defaultdict
from collections.abc import Collection, Iterable
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from penstock.control.errors import BrokenTask
from penstock.control.logs import logger
from penstock.control.private import let_pass
from penstock.control.process import kill_group, start_child
from penstock.spark.dependencies import PLATFORM, PREFIX, content_of, require_usable
from penstock.spark.interpreter import base_python, identity, site_of, skeleton

log = logger(__name__)
_ABOUT = "ENVIRONMENT.json"
_BUILDING, _REMOVED = ".building-", ".removed-"
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_COMPILE_SECONDS = 120.0
# Their own tests, often half of the files, are never imported.
_NOT_COMPILED = r"/tests?/"
_READABLE, _PASSABLE = 0o644, 0o755


class Kept(NamedTuple):
    """An environment on disk. `used_at`: when a host last took it, in seconds of the Unix clock."""

    name: str
    size_bytes: int
    used_at: float


def surplus(kept: Iterable[Kept], held: Collection[str], limit_bytes: int) -> list[str]:
    """Which environments to remove, so that all together take no more than the limit; none that is held. Pure."""
    by_use = sorted(kept, key=lambda each: (each.used_at, each.name))
    over = sum(each.size_bytes for each in by_use) - limit_bytes
    removed: list[str] = []
    for each in by_use:
        if over > 0 and each.name not in held:
            removed.append(each.name)
            over -= each.size_bytes
    return removed


def name_of(package: Path) -> str:
    """The name of the environment of a package with dependencies: a digest of them and of the platform's Python."""
    return sha256(f"{content_of(package)} {identity()}".encode()).hexdigest()


def require_environment(package: Path, environment: Path | None, spark_master: str) -> None:
    """Raises BrokenTask unless this process runs in the environment that a package needs, or it needs none."""
    content = content_of(package)
    if content is None:
        return
    require_usable(package, spark_master)
    if environment is None or json.loads((environment / _ABOUT).read_text())["content"] != content:
        raise BrokenTask(
            f"package: this host was started without the dependencies that {package.name} has now; a version never "
            "changes, so pack it under a new version",
            rule="package_dependencies",
        )


class Environments:
    """The environments below a folder, of which this process is the only writer. Thread-safe."""

    def __init__(self, root: Path, limit_bytes: int, *, for_all: bool) -> None:
        """`for_all`: other accounts run hosts, so they may pass the folders above. Removes what an earlier process
        left half built or half removed, and what is of an earlier start of the machine."""
        self._root = root
        self._limit_bytes = limit_bytes
        self._for_all = for_all
        self._lock = threading.Lock()
        self._held: dict[str, str] = {}
        self._building: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        for left in root.glob("*"):
            if left.name.startswith((_BUILDING, _REMOVED)) or not _is_of_this_boot(left):
                shutil.rmtree(left, ignore_errors=True)

    def take(self, package: Path, holder: str) -> Path:
        """The environment of a package with dependencies, which is built if it is not there; it stays until `release`.

        Takes seconds when it is built; who asks for the same one meanwhile waits. Raises BrokenTask when the package
        cannot have one, OSError and BadZipFile when it cannot be built.
        """
        name = name_of(package)
        with self._lock:
            self._held[holder] = name
            building = self._building[name]
        try:
            with building:
                if not (self._root / name).is_dir():
                    self._build(package, name)
                os.utime(self._root / name / _ABOUT)
        except BaseException:
            self.release(holder)
            raise
        self.remove_surplus()
        return self._root / name

    def release(self, holder: str) -> None:
        """A host has ended; ignored when it holds nothing."""
        with self._lock:
            self._held.pop(holder, None)

    def remove_surplus(self) -> None:
        """Removes what no host holds, down to the limit."""
        with self._lock:
            names = surplus(_all_kept(self._root), set(self._held.values()), self._limit_bytes)
            aside = [self._root / f"{_REMOVED}{name}" for name in names]
            for name, target in zip(names, aside, strict=True):
                shutil.rmtree(target, ignore_errors=True)
                (self._root / name).rename(target)
        for name, target in zip(names, aside, strict=True):
            log.info("environment removed", name=name)
            shutil.rmtree(target, ignore_errors=True)

    def _build(self, package: Path, name: str) -> None:
        """Builds it aside."""
        self._root.mkdir(parents=True, exist_ok=True)
        if self._for_all:
            let_pass(self._root)
        fresh = Path(tempfile.mkdtemp(prefix=_BUILDING, dir=self._root))
        try:
            _fill(fresh, package)
            if name_of(package) != name:
                raise BrokenTask(f"package: {package.name} changed while its environment was built")
            fresh.rename(self._root / name)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise
        log.info("environment built", package=package.name, name=name)


def _fill(environment: Path, package: Path) -> None:
    own = site_of(environment)
    with zipfile.ZipFile(package) as archive:
        archive.extractall(environment, [each for each in archive.namelist() if each.startswith(PREFIX)])
    own.parent.mkdir(parents=True)
    (environment / PREFIX).rename(own)
    (own / Path(PLATFORM).name).unlink(missing_ok=True)
    skeleton(environment)
    _compile(own)
    size_bytes = sum(_open_to_all(path) for path in (environment, *environment.rglob("*")))
    about = environment / _ABOUT
    told = {"package": package.name, "content": content_of(package), "bytes": size_bytes, "boot": _boot()}
    about.write_text(json.dumps(told))
    about.chmod(_READABLE)


def _compile(libraries: Path) -> None:
    """Compiles modules, since hosts may not write here; what cannot be compiled is compiled at each import.

    Without `site`: this process's account runs no code of the libraries.
    """
    command = [str(base_python()), "-I", "-S", "-m", "compileall", "-qq", "-x", _NOT_COMPILED, str(libraries)]
    compiler = start_child(command)
    try:
        compiler.wait(_COMPILE_SECONDS)
    except subprocess.TimeoutExpired:
        log.warning("modules not all compiled", folder=libraries)
    finally:
        kill_group(compiler)


def _open_to_all(path: Path) -> int:
    """Lets all accounts read a file or folder; its size in bytes. Links stay as they are."""
    found = path.lstat()
    if not stat.S_ISLNK(found.st_mode):
        path.chmod(_PASSABLE if stat.S_ISDIR(found.st_mode) else _READABLE)
    return found.st_size


def _boot() -> str:
    """Names the time since the machine last started."""
    return _BOOT.read_text() if _BOOT.exists() else ""


def _is_of_this_boot(environment: Path) -> bool:
    try:
        found = json.loads((environment / _ABOUT).read_text())
    except (OSError, ValueError):
        return False
    return bool(found["boot"] == _boot())


def _all_kept(root: Path) -> list[Kept]:
    """The environments that are whole."""
    found = [about for about in root.glob(f"*/{_ABOUT}") if not about.parent.name.startswith(".")]
    return [Kept(each.parent.name, json.loads(each.read_text())["bytes"], each.stat().st_mtime) for each in found]
