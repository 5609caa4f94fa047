"""What a package's archive holds of its dependencies, below `_dependencies/`, and how it is read and unpacked.

An archive may be made by other means than `pack`, and change while it is read. So no name may say another path than its
own, sizes are known before anything is unpacked, and what was unpacked is hashed again.
"""

from __future__ import annotations

import hashlib
import lzma
import re
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import IO

from penstock.control.errors import BrokenTask

PREFIX = "_dependencies/"
PLATFORM = f"{PREFIX}PLATFORM"
"""In an archive with machine code: what it was made for."""
_PART_BYTES = 2**20
_DAMAGE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, RuntimeError, ValueError)
_INFO = re.compile(rf"{PREFIX}([^/]+)-([^/-]+)\.dist-info/METADATA")


@contextmanager
def opened(package: Path) -> Iterator[zipfile.ZipFile]:
    """A package's archive. Raises OSError; and BrokenTask, also in the block, for what is no whole archive."""
    try:
        with zipfile.ZipFile(package) as archive:
            yield archive
    except _DAMAGE as error:
        raise BrokenTask(f"package: {package.name} is damaged: {error}", rule="package_is_zip") from error


def names_in(archive: zipfile.ZipFile) -> list[str]:
    """The names of the files below `PREFIX`. Raises BrokenTask for one with a part that unpacking leaves out."""
    unique = dict.fromkeys(archive.namelist())
    names = [name for name in unique if name.startswith(PREFIX) and not name.endswith("/")]
    wrong = next((name for name in names if {"", ".", ".."} & set(name.split("/"))), None)
    if wrong is not None:
        detail = f"package: {Path(archive.filename or '').name}: {wrong!r} has an empty part, '.' or '..'"
        raise BrokenTask(detail, rule="package_names")
    return names


def has_dependencies(package: Path) -> bool:
    """Whether a package's archive has dependencies. Raises OSError, and BrokenTask for what is no archive."""
    with opened(package) as archive:
        return bool(names_in(archive))


def libraries(package: Path) -> list[tuple[str, str]]:
    """The libraries in a package's archive, each with its version, by name. Raises as `has_dependencies`."""
    with opened(package) as archive:
        matches = [_INFO.fullmatch(name) for name in names_in(archive)]
    return sorted((match[1], match[2]) for match in matches if match)


def require_room(package: Path, limit_bytes: int) -> None:
    """Raises BrokenTask when the dependencies take more than a limit once they are unpacked; OSError."""
    with opened(package) as archive:
        _require_room(archive, package, limit_bytes)


def content_of(package: Path) -> str | None:
    """A digest (sha256, hex) of the dependencies in a package's archive; None without any.

    Packages with the same dependencies have the same digest. Raises OSError, and BrokenTask for what is no archive.
    """
    found = package.stat()
    return _content(package, (found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size))


@lru_cache(256)
def _content(package: Path, version: tuple[int, ...]) -> str | None:
    """`version`: part of the key of the cache, so a file that was replaced is read again."""
    with opened(package) as archive:
        names = sorted(names_in(archive))
        return _digest_of((name, archive.open(name)) for name in names) if names else None


def unpack(package: Path, folder: Path, limit_bytes: int) -> str:
    """Unpacks the dependencies into `folder/_dependencies`. Returns the digest of the files that are there now, which
    may not be `content_of` the package: another process may write the archive meanwhile.

    Raises OSError, and BrokenTask when the archive is damaged or they take more than the limit.
    """
    with opened(package) as archive:
        _require_room(archive, package, limit_bytes)
        archive.extractall(folder, names_in(archive))
    files = sorted(path.relative_to(folder).as_posix() for path in (folder / PREFIX).rglob("*") if path.is_file())
    return _digest_of((name, (folder / name).open("rb")) for name in files)


def _require_room(archive: zipfile.ZipFile, package: Path, limit_bytes: int) -> None:
    size_bytes = sum(archive.getinfo(name).file_size for name in names_in(archive))
    if size_bytes > limit_bytes:
        detail = f"package: the dependencies of {package.name} take {size_bytes} bytes, more than the {limit_bytes} of "
        raise BrokenTask(f"{detail}PENSTOCK_ENVIRONMENTS_BYTES", rule="package_size")


def _digest_of(files: Iterable[tuple[str, IO[bytes]]]) -> str:
    """Of names and contents. Read bit by bit: libraries with machine code have files of 100 MB."""
    whole = hashlib.sha256()
    for name, stream in files:
        with stream:
            one = hashlib.sha256()
            while part := stream.read(_PART_BYTES):
                one.update(part)
            whole.update(f"{one.hexdigest()} {name!r}\n".encode())
    return whole.hexdigest()
