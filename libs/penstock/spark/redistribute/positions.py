"""Where a stopped task of the old generation is: its last finished batch, its offsets, its watermark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.config.keygroups import KeyGroupRange
from penstock.config.model import Input
from penstock.control.errors import BrokenCheckpoint
from penstock.spark.checkpoint import CheckpointFiles, PlannedBatch, last_commit, planned_batch, watermark_ms
from penstock.spark.redistribute.bus import InputEnds
from penstock.spark.redistribute.offsets import SourceOffsets, parse_line


@dataclass(frozen=True)
class Trace:
    """What a task's checkpoint itself says. `batch_id` and `batch` are those of the last finished batch, if any.

    `sources` has an entry a source of the query, None where the checkpoint does not say what is read next; none at
    all for a task that was never started. `watermark_ms` is 0 without a watermark.
    """

    batch_id: int | None
    batch: PlannedBatch | None
    sources: tuple[SourceOffsets | None, ...]
    watermark_ms: int


@dataclass(frozen=True)
class Position:
    """A trace with what was missing: `sources` say of every source what is read next."""

    batch_id: int | None
    batch: PlannedBatch | None
    sources: tuple[SourceOffsets, ...]
    watermark_ms: int


def trace(checkpoint: str, files: CheckpointFiles) -> Trace:
    """The trace of a task that has no batch pending. Raises BrokenCheckpoint when its logs contradict themselves."""
    batch_id = last_commit(checkpoint, files)
    if batch_id is None:
        return Trace(None, None, _noted_at_start(checkpoint, files), 0)
    batch = planned_batch(checkpoint, batch_id, files)
    sources = tuple(None if line is None else parse_line(line) for line in batch.sources)
    return Trace(batch_id, batch, sources, watermark_ms(checkpoint, batch_id, files))


def topics_of(traces: Sequence[Trace]) -> tuple[str, ...]:
    """The topic of each source of the query, in its order; where no batch was finished, of those that have begun. Pure.

    Raises BrokenCheckpoint when the tasks contradict each other.
    """
    topics: list[str] = []
    for number in range(max(len(found.sources) for found in traces)):
        sources = [found.sources[number] for found in traces if number < len(found.sources)]
        named = {source.topic for source in sources if source is not None}
        if not named and all(found.batch_id is None for found in traces):
            break
        if len(named) != 1:
            raise BrokenCheckpoint(
                f"source {number} of the query reads {sorted(named) or 'no topic'}, expected one topic"
            )
        topics.append(named.pop())
    return tuple(topics)


def position(
    found: Trace, part: KeyGroupRange, topics: Sequence[str], inputs: Mapping[str, Input], ends: InputEnds
) -> Position:
    """The trace of the task of `part`; sources that it says nothing of begin as configured. `inputs` are by topic.

    Raises BrokenCheckpoint for a topic that the job does not read, Unavailable when Kafka does not answer.
    """
    noted = (found.sources + (None,) * len(topics))[: len(topics)]
    for topic in topics:
        if topic not in inputs:
            raise BrokenCheckpoint(f"the checkpoints read {topic}, which is not an input of the job")
    sources = tuple(
        ends.starts(inputs[topic], part) if source is None else source
        for topic, source in zip(topics, noted, strict=True)
    )
    return Position(found.batch_id, found.batch, sources, found.watermark_ms)


def positions_of(
    checkpoints: Sequence[tuple[str, KeyGroupRange]],
    files: CheckpointFiles,
    inputs: Mapping[str, Input],
    ends: InputEnds,
) -> list[Position]:
    """Where all tasks of a job are, none of which has a batch pending. Raises what `trace` and `position` raise."""
    traces = [trace(checkpoint, files) for checkpoint, _ in checkpoints]
    topics = topics_of(traces)
    return [position(found, part, topics, inputs, ends) for found, (_, part) in zip(traces, checkpoints, strict=True)]


def initial_offsets_path(number: int) -> str:
    """Where Spark's Kafka source number `number` notes what it began with, below the checkpoint."""
    return f"sources/{number}/0"


def initial_offsets_text(line: str) -> str:
    """The content of that file."""
    return f"\0v1\n{line}"


def _noted_at_start(checkpoint: str, files: CheckpointFiles) -> tuple[SourceOffsets | None, ...]:
    numbers = sorted(int(name) for name in files.names(f"{checkpoint}/sources") if name.isdigit())
    found = {number: _noted(f"{checkpoint}/{initial_offsets_path(number)}", files) for number in numbers}
    return tuple(found.get(number) for number in range(max(numbers, default=-1) + 1))


def _noted(path: str, files: CheckpointFiles) -> SourceOffsets | None:
    try:
        return parse_line(files.read(path).rpartition("\n")[2])
    except FileNotFoundError:
        return None
