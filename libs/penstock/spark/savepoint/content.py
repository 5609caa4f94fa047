"""The files that a task needs to continue after its last finished batch. The task may run meanwhile.

For some versions a state store's folder has the whole content (`<version>.snapshot` of the heap backend,
`<version>.zip` of RocksDB), for others the changes since the version before (`.delta`, `.changelog`). A RocksDB zip
names the files in `SSTs/` and `logs/` that contain the data.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from zipfile import BadZipFile, ZipFile

from penstock.control.errors import BrokenCheckpoint
from penstock.spark.checkpoint import METADATA, last_commit, planned_batch, source_folders, watermark_ms
from penstock.spark.files import Files
from penstock.spark.inputs.identity import notes_in
from penstock.spark.redistribute.stores import operators_of, partitions_of

_WHOLE = ("snapshot", "zip")
_CHANGES = ("delta", "changelog")


@dataclass(frozen=True)
class Content:
    """`batch`: the last finished one, or None. `files`: sizes in bytes by path below the checkpoint.

    `moved`: the files that contain the path of their own folder, with the content that they must have in `home`; and
    the notes of topics, which are empty.
    """

    batch: int | None
    files: Mapping[str, int]
    moved: Mapping[str, bytes] = field(default_factory=dict)


def content_of(checkpoint: str, home: str, files: Files) -> Content:
    """The content of a checkpoint whose copy will be at `home`.

    Raises BrokenCheckpoint when it contradicts itself or lacks files of a store, and FileNotFoundError when a file is
    deleted meanwhile.
    """
    of, batch = _Checkpoint(checkpoint, files), last_commit(checkpoint, files)
    names = [METADATA] if METADATA in files.names(checkpoint) else []
    names += of.notes_of_sources()
    moved = dict.fromkeys(notes_in(files, checkpoint), b"")
    if batch is None:
        return Content(None, of.sized(names), moved)
    planned = planned_batch(checkpoint, batch, files)
    watermark_ms(checkpoint, batch, files)
    for log in ("offsets", "commits"):
        names += [f"{log}/{number}" for number in (batch, batch - 1) if number == batch or str(number) in of.names(log)]
    partitions = partitions_of(planned.metadata)
    operators = operators_of(checkpoint, files)
    for operator in operators:
        names += operator.schema_paths()
        if operator.version == "v1":
            names.append(operator.metadata_path)
        else:
            # Metadata of version 2 has absolute paths of schema files, so the copy gets new metadata.
            moved[operator.metadata_path] = operator.metadata_for(home, partitions).encode()
    found = of.sized(names)
    for store in (store for operator in operators for store in operator.stores):
        for partition in range(partitions):
            found |= of.store(store.folder(partition), batch + 1)
    return Content(batch, found, moved)


class _Checkpoint:
    """Files by their paths below a checkpoint."""

    def __init__(self, root: str, files: Files) -> None:
        self._root = root
        self._files = files

    def names(self, folder: str) -> list[str]:
        return self._files.names(f"{self._root}/{folder}")

    def sized(self, names: Iterable[str]) -> dict[str, int]:
        """The sizes in bytes. Raises BrokenCheckpoint when a file is empty."""
        found = {name: self._files.size(f"{self._root}/{name}") for name in names}
        for name, size in found.items():
            if size == 0:
                raise BrokenCheckpoint(f"{self._root}/{name} is empty")
        return found

    def notes_of_sources(self) -> list[str]:
        """The files in the folders of the sources, one folder for each source."""
        folders = [f"sources/{name}" for _, name in source_folders(self._root, self._files)]
        return [f"{folder}/{name}" for folder in folders for name in self.names(folder) if not name.startswith(".")]

    def store(self, folder: str, version: int) -> dict[str, int]:
        """The sizes of the files that a version of a store consists of. Raises BrokenCheckpoint when one is wrong."""
        try:
            names = chain(self.names(folder), version)
        except BrokenCheckpoint as error:
            raise BrokenCheckpoint(f"{self._root}/{folder}: {error.detail}") from error
        found = self.sized(f"{folder}/{name}" for name in names)
        for archive in [name for name in found if name.endswith(".zip")]:
            for below, expected in zipped_files(self._files.read(f"{self._root}/{archive}")).items():
                path = f"{self._root}/{folder}/{below}"
                if (size := self._files.size(path)) != expected:
                    raise BrokenCheckpoint(f"{path} has {size} bytes, expected {expected}")
                found[f"{folder}/{below}"] = expected
        return found


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
