"""The files of a state store that a version consists of. Pure.

For some versions a store's folder has the whole content (`<version>.snapshot` of the heap backend, `<version>.zip` of
RocksDB), for others the changes since the version before (`.delta`, `.changelog`). A RocksDB zip names the files in
`SSTs/` and `logs/` that contain the data.
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
            raise BrokenCheckpoint(f"version {version} of the state needs version {number}, which is missing")
        found.append(changes)
    return tuple(found)


def zipped_files(content: bytes) -> dict[str, int]:
    """The sizes in bytes of the files that a RocksDB zip names, by path in the store's folder.

    Raises BrokenCheckpoint when the zip cannot be read.
    """
    try:
        with ZipFile(BytesIO(content)) as archive:
            record = json.loads(archive.read("metadata").decode().partition("\n")[2])
        tables = {f"SSTs/{file['dfsSstFileName']}": int(file["sizeBytes"]) for file in record["sstFiles"]}
        logs = {f"logs/{file['dfsLogFileName']}": int(file["sizeBytes"]) for file in record.get("logFiles", ())}
        return tables | logs
    except (BadZipFile, KeyError, ValueError) as error:
        raise BrokenCheckpoint(f"the zip file of a RocksDB store cannot be read: {error!r}") from error


def _named(names: Collection[str], version: int, endings: Collection[str]) -> str | None:
    return next((name for name in (f"{version}.{ending}" for ending in endings) if name in names), None)
