"""Which files of a state store a version is made of. Pure.

A store's folder has for some versions the whole content (`<version>.snapshot` of the heap backend, `<version>.zip` of
RocksDB) and for others what changed since the version before (`.delta`, `.changelog`). A zip of RocksDB names the
files beside it, in `SSTs/` and `logs/`, that the content is in.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from io import BytesIO
from zipfile import BadZipFile, ZipFile

from penstock.control.errors import BrokenCheckpoint

_WHOLE = ("snapshot", "zip")
_CHANGES = ("delta", "changelog")


def chain(names: Collection[str], version: int) -> tuple[str, ...]:
    """The files that a version needs: the newest whole content and all changes since. Version 0 is empty.

    Raises BrokenCheckpoint when one is missing.
    """
    found: list[str] = []
    for number in range(version, 0, -1):
        whole = _named(names, number, _WHOLE)
        if whole is not None:
            return (*found, whole)
        changes = _named(names, number, _CHANGES)
        if changes is None:
            raise BrokenCheckpoint(f"version {version} of the state needs version {number}, which is not there")
        found.append(changes)
    return tuple(found)


def zipped_files(content: bytes) -> dict[str, int]:
    """The files that a RocksDB zip names, below the store's folder, with their bytes. Raises BrokenCheckpoint."""
    try:
        with ZipFile(BytesIO(content)) as archive:
            record = json.loads(archive.read("metadata").decode().partition("\n")[2])
        tables = {f"SSTs/{file['dfsSstFileName']}": int(file["sizeBytes"]) for file in record["sstFiles"]}
        logs = {f"logs/{file['dfsLogFileName']}": int(file["sizeBytes"]) for file in record.get("logFiles", ())}
        return tables | logs
    except (BadZipFile, KeyError, ValueError) as error:
        raise BrokenCheckpoint(f"the zip of a RocksDB store cannot be read: {error!r}") from error


def _named(names: Collection[str], version: int, endings: Collection[str]) -> str | None:
    return next((name for name in (f"{version}.{ending}" for ending in endings) if name in names), None)
