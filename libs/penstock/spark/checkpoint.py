"""A task's checkpoint: its path and its logs.

    <root>/<job>/g<generation>/task-<index>/
        metadata            id of the query
        offsets/<batch>     a batch that was planned: v1, metadata, a line of offsets for each source
        commits/<batch>     a batch that was finished
        state/, sources/    Spark's
        FENCE, FENCE.lock   who may publish here (`penstock.spark.fence`)
    <root>/<job>/g<generation>/COLLECTED    the checkpoints were deleted (`penstock.spark.collect`)

Only names of digits count: Spark leaves temporary files beside them. Reading goes through `CheckpointFiles`, so
that local folders need no JVM and other file systems are read by Hadoop.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from penstock.control.errors import BrokenCheckpoint

COLLECTED = "COLLECTED"
_LOG_VERSION = "v1"
_NO_OFFSET = "-"


class CheckpointFiles(Protocol):
    """The file system of a checkpoint. Paths are Hadoop paths."""

    def names(self, folder: str) -> list[str]:
        """The names in a folder; empty when the folder does not exist."""
        ...

    def read(self, path: str) -> str:
        """The text of a file; raises FileNotFoundError when there is none."""
        ...

    def read_bytes(self, path: str) -> bytes:
        """The content of a file; raises FileNotFoundError when there is none."""
        ...


class LocalCheckpointFiles:
    """Folders of this machine, or mounted on it."""

    def names(self, folder: str) -> list[str]:
        """The names in a folder; empty when the folder does not exist."""
        path = local_path(folder)
        return [entry.name for entry in path.iterdir()] if path.is_dir() else []

    def read(self, path: str) -> str:
        """The text of a file; raises FileNotFoundError when there is none."""
        return local_path(path).read_text()

    def read_bytes(self, path: str) -> bytes:
        """The content of a file; raises FileNotFoundError when there is none."""
        return local_path(path).read_bytes()


LOCAL_FILES = LocalCheckpointFiles()


@dataclass(frozen=True)
class PlannedBatch:
    """An entry of the offsets log. `sources` has a JSON text for each source, None if it has read nothing yet."""

    metadata: Mapping[str, Any]
    sources: tuple[str | None, ...]


def generation_folder(root: str, job: str, generation: int) -> str:
    """The Hadoop path of all checkpoints of a generation."""
    return f"{root.rstrip('/')}/{job}/g{generation}"


def task_checkpoint(root: str, job: str, generation: int, index: int) -> str:
    """The Hadoop path of a task's checkpoint."""
    return f"{generation_folder(root, job, generation)}/task-{index}"


def is_local(path: str) -> bool:
    """Whether a Hadoop path is of the local file system: `file:` or no scheme."""
    return urlsplit(path).scheme in ("", "file")


def local_path(path: str) -> Path:
    """The local file of a `file:` path or a plain one. Raises ValueError for other file systems."""
    if not is_local(path):
        raise ValueError(f"not a local path: {path}")
    parts = urlsplit(path)
    return Path(unquote(parts.path)) if parts.scheme else Path(path)


def last_offset(checkpoint: str, files: CheckpointFiles = LOCAL_FILES) -> int | None:
    """The newest batch that was planned; None when there is none."""
    return _newest(files.names(f"{checkpoint}/offsets"))


def last_commit(checkpoint: str, files: CheckpointFiles = LOCAL_FILES) -> int | None:
    """The newest batch that was finished; None when there is none."""
    return _newest(files.names(f"{checkpoint}/commits"))


def is_clean(checkpoint: str, files: CheckpointFiles = LOCAL_FILES) -> bool:
    """Whether no planned batch is unfinished. Meaningful only while no query runs on the checkpoint.

    Raises BrokenCheckpoint when a batch was finished that was never planned.
    """
    # Commits first: a batch that ends between the two reads then shows as unfinished, never as a contradiction.
    finished, planned = last_commit(checkpoint, files), last_offset(checkpoint, files)
    if finished is not None and (planned is None or finished > planned):
        raise BrokenCheckpoint(f"batch {finished} is committed but only {planned} is planned in {checkpoint}")
    return planned == finished


def planned_batch(checkpoint: str, batch_id: int, files: CheckpointFiles = LOCAL_FILES) -> PlannedBatch:
    """A batch's entry in the offsets log. Raises BrokenCheckpoint when the entry is missing or unreadable."""
    path = f"{checkpoint}/offsets/{batch_id}"
    try:
        return parse_offsets(files.read(path))
    except FileNotFoundError as error:
        raise BrokenCheckpoint(f"the file {path} is missing") from error
    except ValueError as error:
        raise BrokenCheckpoint(f"{path}: {error}") from error


def parse_offsets(text: str) -> PlannedBatch:
    """Reads an entry of the offsets log, version 1. Raises ValueError for anything else."""
    version, _, rest = text.partition("\n")
    if version != _LOG_VERSION:
        raise ValueError(f"offsets log of version {version!r}, expected {_LOG_VERSION}")
    metadata, *sources = rest.split("\n")
    return PlannedBatch(json.loads(metadata), tuple(None if line == _NO_OFFSET else line for line in sources))


def watermark_ms(checkpoint: str, batch_id: int, files: CheckpointFiles = LOCAL_FILES) -> int:
    """The watermark (epoch milliseconds) that a finished batch left for the next; 0 without one.

    Raises BrokenCheckpoint when the entry is missing or unreadable.
    """
    path = f"{checkpoint}/commits/{batch_id}"
    try:
        version, _, record = files.read(path).partition("\n")
        if version != _LOG_VERSION:
            raise ValueError(f"commit log of version {version!r}, expected {_LOG_VERSION}")
        return int(json.loads(record)["nextBatchWatermarkMs"])
    except FileNotFoundError as error:
        raise BrokenCheckpoint(f"the file {path} is missing") from error
    except (ValueError, KeyError) as error:
        raise BrokenCheckpoint(f"{path}: {error}") from error


def offsets_text(batch: PlannedBatch) -> str:
    """The entry of the offsets log that `parse_offsets` reads as `batch`."""
    sources = [_NO_OFFSET if line is None else line for line in batch.sources]
    return "\n".join([_LOG_VERSION, json.dumps(batch.metadata, separators=(",", ":")), *sources])


def commit_text(next_watermark_ms: int) -> str:
    """The entry of the commit log of a batch that leaves this watermark."""
    return f'{_LOG_VERSION}\n{{"nextBatchWatermarkMs":{next_watermark_ms}}}'


def _newest(names: list[str]) -> int | None:
    return max((int(name) for name in names if name.isascii() and name.isdigit()), default=None)
