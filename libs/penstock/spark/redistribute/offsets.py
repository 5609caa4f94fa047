"""Offsets by key group: from the lines of the old tasks' offset logs to those of the new ones. Pure.

A key group is a partition of each topic of an input. A job's query reads one source or several; a source is a line of
the offsets log, `{"topic": {"<partition>": offset}}`, with several topics where the input has a pattern. Each topic has
every key group exactly once over all tasks. Topics have their full names there; only what a source notes of its
beginning has plain ones, in a folder that names the cluster.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from penstock.config.keygroups import KeyGroupRange
from penstock.config.topics import full_topic, topic_and_cluster
from penstock.control.errors import BrokenCheckpoint, BrokenTask

Offsets = Mapping[int, int]
"""By key group."""


@dataclass(frozen=True)
class SourceOffsets:
    """The next offset to read of each key group of one source, by topic. `line`: of a stream, its line as its source
    wrote it; it goes on with one task, and has no topics."""

    topics: Mapping[str, Offsets] = field(default_factory=dict)
    line: str | None = None


def parse_line(line: str) -> SourceOffsets:
    """A line of the offsets log of a Kafka source. Raises BrokenCheckpoint for anything else."""
    try:
        return SourceOffsets(
            {
                topic: {int(key_group): int(offset) for key_group, offset in offsets.items()}
                for topic, offsets in json.loads(line).items()
            }
        )
    except (ValueError, AttributeError) as error:
        raise BrokenCheckpoint(f"expected the offsets of topics, not {line!r}") from error


def source_of(line: str) -> SourceOffsets:
    """A source of a query: topics, or else a stream."""
    try:
        return parse_line(line)
    except BrokenCheckpoint:
        return SourceOffsets(line=line)


def line_of(source: SourceOffsets) -> str:
    """The line of the offsets log that `source_of` reads as `source`."""
    if source.line is not None:
        return source.line
    topics = {
        topic: {str(key_group): offsets[key_group] for key_group in sorted(offsets)}
        for topic, offsets in sorted(source.topics.items())
    }
    return json.dumps(topics, separators=(",", ":"))


def initial_offsets(number: int, source: SourceOffsets) -> tuple[str, str]:
    """What Spark's Kafka source number `number` notes of its beginning: the path below the checkpoint, the content."""
    plain = SourceOffsets({topic_and_cluster(topic)[0]: offsets for topic, offsets in source.topics.items()})
    cluster = next((topic_and_cluster(topic)[1] for topic in source.topics), None)
    return f"sources/{full_topic(str(number), cluster)}/0", f"\0v1\n{line_of(plain)}"


def topics_in(sources: Iterable[SourceOffsets]) -> set[str]:
    """The topics that some of the sources read."""
    return {topic for source in sources for topic in source.topics}


def merged(tasks: Sequence[Sequence[SourceOffsets]], key_groups: int) -> tuple[SourceOffsets, ...]:
    """One offset for each key group of each topic, from the sources of all tasks, in the order of the query.

    Raises BrokenCheckpoint unless all tasks have the same topics and each key group is covered exactly once.
    """
    if any(source.line is not None for sources in tasks for source in sources):
        return _of_one_task(tasks)
    topics = {tuple(tuple(sorted(source.topics)) for source in sources) for sources in tasks}
    if len(topics) != 1:
        raise BrokenCheckpoint(f"the tasks of the job read different topics: {sorted(topics)}")
    return tuple(
        SourceOffsets({topic: _united(topic, [part.topics[topic] for part in column], key_groups) for topic in names})
        for names, column in zip(topics.pop(), zip(*tasks, strict=True), strict=True)
    )


def grown(
    sources: Iterable[SourceOffsets], beginnings: Callable[[str, range], Mapping[int, int]], fresh: range
) -> tuple[SourceOffsets, ...]:
    """The sources with the `fresh` key groups of their topics, which `beginnings` looks up, if there are any."""
    if not fresh:
        return tuple(sources)
    return tuple(
        SourceOffsets({topic: {**offsets, **beginnings(topic, fresh)} for topic, offsets in source.topics.items()})
        for source in sources
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
        replace(source, topics={topic: _part(offsets, part) for topic, offsets in source.topics.items()})
        for source in sources
    )


def _part(offsets: Offsets, part: KeyGroupRange) -> Offsets:
    return {group: offsets[group] for group in part.members()}


def _of_one_task(tasks: Sequence[Sequence[SourceOffsets]]) -> tuple[SourceOffsets, ...]:
    if len(tasks) != 1:
        raise BrokenCheckpoint(f"{len(tasks)} tasks have read streams, of which a job has one task")
    return tuple(tasks[0])


def _united(topic: str, parts: Sequence[Offsets], key_groups: int) -> Offsets:
    pairs = [pair for part in parts for pair in part.items()]
    offsets = dict(pairs)
    if len(pairs) != len(offsets) or offsets.keys() != set(range(key_groups)):
        covered = sorted(group for group, _ in pairs)
        raise BrokenCheckpoint(f"the offsets of {topic} cover the key groups {covered}, not 0 to {key_groups}")
    return offsets
