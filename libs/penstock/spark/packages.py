"""Packages of jobs: one zip (or wheel) for each version, `<root>/<name>-<version>.zip`.

Pure Python, which can be imported from a zip on `sys.path`, and perhaps its dependencies (`dependencies.py`). The same
files give the same bytes on every machine, so a digest identifies the code. A version that was packed never changes.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path

from penstock.config.declare import NAME
from penstock.config.model import PACKAGE_VERSION, Package
from penstock.control.errors import BrokenTask, Conflict, InvalidConfig, NotFound
from penstock.spark.bundle import PREFIX
from penstock.spark.dependencies import MACHINE_CODE

BUILTIN = "builtin"
_NAME = re.compile(NAME)
_VERSION = re.compile(PACKAGE_VERSION)
_REGULAR_FILE = 0o100644 << 16
_LEFT_OUT_FOLDERS = {"__pycache__"}
_LEFT_OUT_SUFFIXES = {".pyc", ".pyo"}


def package_path(root: Path, name: str, version: str) -> Path:
    """The path of a version of a package. Raises InvalidConfig when the version is not a plain file name."""
    if not _NAME.fullmatch(name):
        raise InvalidConfig(f"{name!r} is no package name", field="package.name", rule="pattern")
    if not _VERSION.fullmatch(version):
        raise InvalidConfig(f"{version!r} is no package version", field="package.version", rule="pattern")
    return root / f"{name}-{version}.zip"


def ensure(package: Package, root: Path) -> Path | None:
    """The package's file, checked against its digest when one is given; None for `builtin`, which has no file.

    Raises BrokenTask when the file is missing, is not a zip, or has another digest.
    """
    if package.name == BUILTIN:
        return None
    path = find(package.name, package.version, root)
    if package.digest is not None:
        require_digest(path, package.digest)
    if not zipfile.is_zipfile(path):
        raise BrokenTask(f"package: {path.name} is no zip file", rule="package_is_zip")
    return path


def find(name: str, version: str, root: Path) -> Path:
    """The file of a version of a package, not `builtin`. Raises BrokenTask when there is none."""
    try:
        path = package_path(root, name, version)
    except InvalidConfig as error:
        raise BrokenTask(f"{error.field}: {error}") from error
    if not path.is_file():
        raise BrokenTask(
            f"package: {name} {version} is missing: there is no file {path.name} in {root}", rule="package_exists"
        )
    return path


def pack(
    folder: Path, name: str, version: str, root: Path, dependencies: Iterable[tuple[str, bytes]] = ()
) -> tuple[Path, str]:
    """Packs the Python files and data below `folder` and returns the file and its digest, `sha256:<hex>`.

    Caches and hidden files are left out. `dependencies`: as `dependencies.entries` gives them. The file appears
    atomically. Raises InvalidConfig when there is no such folder or nothing to pack, when a Python file has a syntax
    error, or a file is machine code, which cannot be imported from a zip; and Conflict when the version exists with
    other contents.
    """
    target = package_path(root, name, version)
    if not folder.is_dir():
        raise InvalidConfig(f"there is no folder {folder}", field="package", rule="folder_exists")
    files = sorted(_files_below(folder))
    _require_pure(files)
    _require_syntax(folder, files)
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".pack-", dir=root) as scratch:
        fresh = Path(scratch) / target.name
        _write_zip(fresh, chain(((each, (folder / each).read_bytes()) for each in files), dependencies))
        _publish(fresh, target)
    return target, digest_of(target)


def delete(name: str, version: str, root: Path, require_unused: Callable[[], None] | None = None) -> Path:
    """Deletes the file of a version and returns its path. Raises NotFound when there is none.

    `require_unused` raises when a job uses it, and has writes refused that have begun and would take it; None: nobody
    is asked. It is asked again once the file is set aside, since a write that saw the file may have begun and ended in
    between; then the file is put back. So is one that a killed call left aside.
    """
    path = package_path(root, name, version)
    aside = path.with_name(f".{path.name}.deleted")
    if aside.exists():
        _put_back(aside, path)
    require_unused = require_unused or _nobody_asks
    require_unused()
    try:
        path.replace(aside)
    except FileNotFoundError as error:
        kept = ", ".join(each.name for each in sorted(root.glob(f"{name}-*.zip"))) or "none of this name"
        detail = f"there is no file {path.name} in {root}; there are: {kept}"
        raise NotFound(detail, field="package.version", rule="known") from error
    try:
        require_unused()
    except BaseException:
        _put_back(aside, path)
        raise
    aside.unlink()
    return path


def _nobody_asks() -> None:
    """What is deleted by force."""


def _put_back(aside: Path, path: Path) -> None:
    """Unless the version was packed again meanwhile."""
    with suppress(FileExistsError):
        os.link(aside, path)
    aside.unlink()


def digest_of(path: Path) -> str:
    """The digest of a file as configurations write it: `sha256:<hex>`."""
    with path.open("rb") as stream:
        return f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()}"


def require_digest(path: Path, expected: str) -> None:
    """Raises BrokenTask when a package's file has another digest than a configuration names; OSError."""
    actual = digest_of(path)
    if actual != expected:
        raise BrokenTask(f"package.digest: {path.name} has the digest {actual}, not {expected}", rule="package_digest")


def _files_below(folder: Path) -> Iterator[str]:
    """Names relative to `folder`, with slashes."""
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in _LEFT_OUT_FOLDERS and not name.startswith(".")]
        for name in names:
            if not name.startswith(".") and Path(name).suffix not in _LEFT_OUT_SUFFIXES:
                yield (Path(parent) / name).relative_to(folder).as_posix()


def _require_syntax(folder: Path, files: list[str]) -> None:
    """Raises InvalidConfig that names each Python file, and the line, which Python cannot read."""
    errors = [error for name in files if name.endswith(".py") if (error := _syntax_error(folder, name))]
    if errors:
        raise InvalidConfig("; ".join(errors), field="package", rule="syntax")


def _syntax_error(folder: Path, name: str) -> str | None:
    try:
        ast.parse((folder / name).read_bytes(), filename=name)
    except SyntaxError as error:
        return f"{name}, line {error.lineno}: {error.msg}"
    except ValueError as error:
        return f"{name}: {error}"
    return None


def _require_pure(files: list[str]) -> None:
    if not any(name.endswith(".py") for name in files):
        raise InvalidConfig("the folder has no Python file", field="package", rule="not_empty")
    reserved = next((name for name in files if name.startswith(PREFIX)), None)
    if reserved is not None:
        raise InvalidConfig(f"{reserved}: {PREFIX} is for --requirements", field="package", rule="reserved_folder")
    binary = [name for name in files if name.endswith(MACHINE_CODE)]
    if binary:
        raise InvalidConfig(
            f"machine code cannot be packed: {', '.join(binary)}. Name libraries in a file for --requirements",
            field="package",
            rule="pure_python",
        )


def _write_zip(target: Path, contents: Iterable[tuple[str, bytes]]) -> None:
    """Files are stored, not deflated: the output of zlib differs between versions, and imports are faster."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for name, content in contents:
            entry = zipfile.ZipInfo(name)
            entry.external_attr = _REGULAR_FILE
            archive.writestr(entry, content)


def _publish(fresh: Path, target: Path) -> None:
    """Creating a hard link fails when the name exists, so only one of two concurrent packers succeeds."""
    try:
        os.link(fresh, target)
    except FileExistsError as error:
        if digest_of(fresh) != digest_of(target):
            raise Conflict(
                f"{target.name} exists with other contents; a version never changes, so choose a new version",
                field="package.version",
                rule="immutable",
            ) from error
