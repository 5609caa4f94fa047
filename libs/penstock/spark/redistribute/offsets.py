"""Offsets by key group: from the lines of the old tasks' offset logs to those of the new ones. Pure.

A key group is a partition of each input's topic. A job's query reads one source or several; a source is a line of the
offsets log, `{"topic": {"<partition>": offset}}`, and each has every key group exactly once over all tasks. Topics have
their full names there; only what a source notes of its beginning has plain ones, in a folder that names the cluster.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.config.keygroups import KeyGroupRange
from penstock.config.topics import full_topic, topic_and_cluster
from penstock.control.errors import BrokenCheckpoint, BrokenTask

# No topic has such a name.
_STREAM = "stream "


@dataclass(frozen=True)
class SourceOffsets:
    """The next offset to read of each key group of one source. `line`: of a stream, its line as its source wrote it; it
    goes on with one task, and has no key groups."""

    topic: str
    offsets: Mapping[int, int]
    line: str | None = None


def parse_line(line: str) -> SourceOffsets:
    """A line of the offsets log of a Kafka source. Raises BrokenCheckpoint for anything else."""
    try:
        ((topic, offsets),) = json.loads(line).items()
        return SourceOffsets(topic, {int(key_group): int(offset) for key_group, offset in offsets.items()})
    except (ValueError, AttributeError) as error:
        raise BrokenCheckpoint(f"expected the offsets of one topic, not {line!r}") from error


def source_of(number: int, line: str) -> SourceOffsets:
    """Source `number` of a query: a topic, or else a stream."""
    try:
        return parse_line(line)
    except BrokenCheckpoint:
        return SourceOffsets(f"{_STREAM}{number}", {}, line)


def line_of(source: SourceOffsets) -> str:
    """The line of the offsets log that `source_of` reads as `source`."""
    if source.line is not None:
        return source.line
    offsets = {str(key_group): source.offsets[key_group] for key_group in sorted(source.offsets)}
    return json.dumps({source.topic: offsets}, separators=(",", ":"))


def initial_offsets(number: int, source: SourceOffsets) -> tuple[str, str]:
    """What Spark's Kafka source number `number` notes of its beginning: the path below the checkpoint, the content."""
    topic, cluster = topic_and_cluster(source.topic)
    return f"sources/{full_topic(str(number), cluster)}/0", f"\0v1\n{line_of(replace(source, topic=topic))}"


def with_cluster(source: SourceOffsets | None, inputs: Collection[str]) -> SourceOffsets | None:
    """The source with the full name of its topic, where it has the plain name of the topic of one input only. `inputs`:
    the full names."""
    if source is None or source.topic in inputs:
        return source
    named = [name for name in inputs if topic_and_cluster(name)[0] == source.topic]
    return replace(source, topic=named[0]) if len(named) == 1 else source


def merged(tasks: Sequence[Sequence[SourceOffsets]], key_groups: int) -> tuple[SourceOffsets, ...]:
    """One offset for each key group of each source, from the sources of all tasks, in the order of the query.

    Raises BrokenCheckpoint unless all tasks read the same topics and each key group is covered exactly once.
    """
    if any(source.line is not None for sources in tasks for source in sources):
        return _of_one_task(tasks)
    topics = {tuple(source.topic for source in sources) for sources in tasks}
    if len(topics) != 1:
        raise BrokenCheckpoint(f"the tasks of the job read different topics: {sorted(topics)}")
    return tuple(_united(list(column), key_groups) for column in zip(*tasks, strict=True))


def grown(
    sources: Iterable[SourceOffsets], beginnings: Callable[[str, range], Mapping[int, int]], fresh: range
) -> tuple[SourceOffsets, ...]:
    """The sources with the `fresh` key groups of their topics, which `beginnings` looks up, if there are any."""
    if not fresh:
        return tuple(sources)
    return tuple(
        SourceOffsets(source.topic, {**source.offsets, **beginnings(source.topic, fresh)}) for source in sources
    )


def require_growth(before: int, after: int, *, keeps_state: bool, single: bool) -> None:
    """Raises BrokenTask unless checkpoints of `before` key groups can go on with `after`.

    `single`: one task has all key groups before and after, so that state has no other place. Otherwise a key's records
    are in another partition since the topic grew, and its state and its unread older records would stay behind.
    """
    field = "inputs.<name>.key_groups"
    if after < before:
        raise BrokenTask(f"{field} cannot shrink from {before} to {after}: Kafka's topics do not")
    if after > before and keeps_state and not single:
        raise BrokenTask(
            f"{field} cannot grow from {before} to {after} in a job that keeps state in several tasks: the producer "
            "has moved keys to other partitions. Bring the job to one task first, and scale it up again when it has "
            "read what was written before the topic grew; or make a new job"
        )


def sliced(sources: Iterable[SourceOffsets], part: KeyGroupRange) -> tuple[SourceOffsets, ...]:
    """The offsets of the key groups of one task."""
    return tuple(
        source
        if source.line is not None
        else SourceOffsets(source.topic, {group: source.offsets[group] for group in part.members()})
        for source in sources
    )


def _of_one_task(tasks: Sequence[Sequence[SourceOffsets]]) -> tuple[SourceOffsets, ...]:
    if len(tasks) != 1:
        raise BrokenCheckpoint(f"{len(tasks)} tasks have read streams, of which a job has one task")
    return tuple(tasks[0])


def _united(parts: Sequence[SourceOffsets], key_groups: int) -> SourceOffsets:
    pairs = [pair for part in parts for pair in part.offsets.items()]
    offsets = dict(pairs)
    if len(pairs) != len(offsets) or offsets.keys() != set(range(key_groups)):
        covered = sorted(group for group, _ in pairs)
        raise BrokenCheckpoint(f"the offsets of {parts[0].topic} cover the key groups {covered}, not 0 to {key_groups}")
    return SourceOffsets(parts[0].topic, offsets)
