"""The files that a task needs to continue after its last finished batch. The task may run meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from penstock.control.errors import BrokenCheckpoint
from penstock.spark.checkpoint import METADATA, last_commit, planned_batch, watermark_ms
from penstock.spark.files import Files
from penstock.spark.redistribute.stores import Operator, StateStoreInfo, operators_of, partitions_of
from penstock.spark.savepoint.chain import chain, zipped_files


@dataclass(frozen=True)
class Content:
    """`batch`: the last finished one, or None. `files`: sizes in bytes by path below the checkpoint.

    `moved`: the files that contain the path of their own folder, with the content that they must have in `home`.
    """

    batch: int | None
    files: Mapping[str, int]
    moved: Mapping[str, bytes] = field(default_factory=dict)


def content_of(checkpoint: str, home: str, files: Files) -> Content:
    """The content of a checkpoint whose copy will be at `home`.

    Raises BrokenCheckpoint when it contradicts itself or lacks files of a store, and FileNotFoundError when a file is
    deleted meanwhile.
    """
    batch = last_commit(checkpoint, files)
    names = [METADATA] if METADATA in files.names(checkpoint) else []
    names += _all_below(checkpoint, "sources", files)
    if batch is None:
        return Content(None, _sized(checkpoint, names, files))
    planned = planned_batch(checkpoint, batch, files)
    watermark_ms(checkpoint, batch, files)
    names += [f"{log}/{batch}" for log in ("offsets", "commits")]
    names += [
        f"{log}/{batch - 1}" for log in ("offsets", "commits") if str(batch - 1) in files.names(_at(checkpoint, log))
    ]
    found = _sized(checkpoint, names, files)
    moved: dict[str, bytes] = {}
    partitions = partitions_of(planned.metadata)
    for operator in operators_of(checkpoint, files):
        _describe(checkpoint, home, operator, partitions, files, found, moved)
        for store in operator.stores:
            for partition in range(partitions):
                found |= _store(checkpoint, _store_folder(store, partition), batch + 1, files)
    return Content(batch, found, moved)


def _describe(
    checkpoint: str,
    home: str,
    operator: Operator,
    partitions: int,
    files: Files,
    found: dict[str, int],
    moved: dict[str, bytes],
) -> None:
    """Metadata of version 2 has absolute paths of schema files, so the copy gets new metadata."""
    found |= _sized(checkpoint, operator.schema_paths(), files)
    if operator.version == "v1":
        found |= _sized(checkpoint, [operator.metadata_path], files)
    else:
        moved[operator.metadata_path] = operator.metadata_for(home, partitions).encode()


def _store(checkpoint: str, folder: str, version: int, files: Files) -> dict[str, int]:
    try:
        names = chain(files.names(_at(checkpoint, folder)), version)
    except BrokenCheckpoint as error:
        raise BrokenCheckpoint(f"{checkpoint}/{folder}: {error.detail}") from error
    found = _sized(checkpoint, [f"{folder}/{name}" for name in names], files)
    for name in names:
        if name.endswith(".zip"):
            for below, size in zipped_files(files.read(f"{checkpoint}/{folder}/{name}")).items():
                found[f"{folder}/{below}"] = _of_size(f"{checkpoint}/{folder}/{below}", size, files)
    return found


def _of_size(path: str, size: int, files: Files) -> int:
    found = files.size(path)
    if found != size:
        raise BrokenCheckpoint(f"{path} has {found} bytes, expected {size}")
    return found


def _sized(checkpoint: str, names: Iterable[str], files: Files) -> dict[str, int]:
    found = {name: files.size(f"{checkpoint}/{name}") for name in names}
    for name, size in found.items():
        if size == 0:
            raise BrokenCheckpoint(f"{checkpoint}/{name} is empty")
    return found


def _all_below(checkpoint: str, folder: str, files: Files) -> list[str]:
    """The files in the folders of the sources, one folder for each source."""
    numbers = sorted(name for name in files.names(_at(checkpoint, folder)) if name.isdigit())
    return [
        f"{folder}/{number}/{name}"
        for number in numbers
        for name in files.names(_at(checkpoint, f"{folder}/{number}"))
        if not name.startswith(".")
    ]


def _store_folder(store: StateStoreInfo, partition: int) -> str:
    folder = f"state/{store.operator}/{partition}"
    return folder if store.name == "default" else f"{folder}/{store.name}"


def _at(checkpoint: str, folder: str) -> str:
    return f"{checkpoint}/{folder}"
