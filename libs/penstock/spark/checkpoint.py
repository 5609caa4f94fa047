"""A task's checkpoint: its path and its logs.

    <root>/<job>/g<generation>/task-<index>/
        metadata            id of the query
        offsets/<batch>     a batch that was planned: v1, metadata, a line of offsets for each source
        commits/<batch>     a batch that was finished
        state/, sources/    Spark's
        tables/             versions of tables: `<batch>-<token>`, from this batch on (`penstock.spark.table_versions`)
        FENCE, FENCE.lock   who may publish here (`penstock.spark.fence`)
    <root>/<job>/g<generation>/COLLECTED    the checkpoints were deleted (`penstock.spark.collect`)
    <root>/<job>/streams/                   what the job has read of streams (`penstock.spark.sections`)

Only names of digits count: Spark leaves temporary files beside them.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from penstock.config.topics import topic_and_cluster
from penstock.control.errors import BrokenCheckpoint
from penstock.spark.files import LOCAL_FILES, Files

METADATA = "metadata"
COLLECTED = "COLLECTED"
T = TypeVar("T")
_LOG_VERSION = "v1"
_NO_OFFSET = "-"


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


def numbers(folder: str, files: Files) -> list[int]:
    """The names of digits in a folder."""
    return [int(name) for name in files.names(folder) if name.isascii() and name.isdigit()]


def source_folders(checkpoint: str, files: Files) -> list[tuple[int, str]]:
    """The number of each source, ascending, with the name of the folder below `sources` in which it notes where it
    began: `0`, or `0@eu` where its topic is on a further cluster."""
    names = [(topic_and_cluster(name)[0], name) for name in files.names(f"{checkpoint}/sources")]
    return sorted((int(number), name) for number, name in names if number.isascii() and number.isdigit())


def last_offset(checkpoint: str, files: Files = LOCAL_FILES) -> int | None:
    """The newest batch that was planned; None when there is none."""
    return max(numbers(f"{checkpoint}/offsets", files), default=None)


def last_commit(checkpoint: str, files: Files = LOCAL_FILES) -> int | None:
    """The newest batch that was finished; None when there is none."""
    return max(numbers(f"{checkpoint}/commits", files), default=None)


def is_clean(checkpoint: str, files: Files = LOCAL_FILES) -> bool:
    """Whether no planned batch is unfinished. Meaningful only while no query runs on the checkpoint.

    Raises BrokenCheckpoint when a batch was finished that was never planned.
    """
    # Commits first: a batch that ends between the two reads then shows as unfinished, never as a contradiction.
    finished, planned = last_commit(checkpoint, files), last_offset(checkpoint, files)
    if finished is not None and (planned is None or finished > planned):
        raise BrokenCheckpoint(f"batch {finished} is committed but only {planned} is planned in {checkpoint}")
    return planned == finished


def planned_batch(checkpoint: str, batch_id: int, files: Files = LOCAL_FILES) -> PlannedBatch:
    """A batch's entry in the offsets log. Raises BrokenCheckpoint when the entry is missing or unreadable."""
    return parsed(f"{checkpoint}/offsets/{batch_id}", parse_offsets, files)


def topics_in_offsets(checkpoint: str, files: Files = LOCAL_FILES) -> frozenset[str]:
    """The full names of the topics of the last finished batch and of the last planned one, which will be repeated;
    none before them. Raises BrokenCheckpoint when an entry in the offsets log is missing or unreadable."""
    batches = {last_commit(checkpoint, files), last_offset(checkpoint, files)}
    known = [planned_batch(checkpoint, batch_id, files) for batch_id in batches if batch_id is not None]
    lines = [line for batch in known for line in batch.sources]
    return frozenset(topic for line in lines if line is not None for topic in json.loads(line))


def watermark_ms(checkpoint: str, batch_id: int, files: Files = LOCAL_FILES) -> int:
    """The watermark (epoch milliseconds) that a finished batch left for the next; 0 without one.

    Raises BrokenCheckpoint when the entry is missing or unreadable.
    """
    return parsed(f"{checkpoint}/commits/{batch_id}", _next_watermark_ms, files)


def parse_offsets(text: str) -> PlannedBatch:
    """Reads an entry of the offsets log, version 1. Raises ValueError for anything else."""
    metadata, *sources = _after_version(text).split("\n")
    return PlannedBatch(json.loads(metadata), tuple(None if line == _NO_OFFSET else line for line in sources))


def parsed(path: str, parse: Callable[[str], T], files: Files) -> T:
    """What `parse` makes of a file. Raises BrokenCheckpoint when there is no such file, or `parse` refuses it."""
    try:
        return parse(files.read(path).decode())
    except FileNotFoundError as error:
        raise BrokenCheckpoint(f"the file {path} is missing") from error
    except (ValueError, KeyError) as error:
        raise BrokenCheckpoint(f"{path}: {error}") from error


def _next_watermark_ms(text: str) -> int:
    return int(json.loads(_after_version(text))["nextBatchWatermarkMs"])


def _after_version(text: str) -> str:
    version, _, rest = text.partition("\n")
    if version != _LOG_VERSION:
        raise ValueError(f"the log has version {version!r}, expected {_LOG_VERSION}")
    return rest


def new_id() -> bytes:
    """The content of a new checkpoint's metadata file: an id of its own."""
    return json.dumps({"id": str(uuid.uuid4())}).encode()


def offsets_text(batch: PlannedBatch) -> str:
    """The entry of the offsets log that `parse_offsets` reads as `batch`."""
    sources = [_NO_OFFSET if line is None else line for line in batch.sources]
    return "\n".join([_LOG_VERSION, json.dumps(batch.metadata, separators=(",", ":")), *sources])


def commit_text(next_watermark_ms: int) -> str:
    """The entry of the commit log of a batch that leaves this watermark."""
    return f'{_LOG_VERSION}\n{{"nextBatchWatermarkMs":{next_watermark_ms}}}'
