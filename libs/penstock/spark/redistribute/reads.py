"""Which input each source of a query reads. Pure.

The checkpoint of a task names the topics of a source, and not its input. With a pattern of topics, tasks may have seen
different ones of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from penstock.config.model import Input
from penstock.config.topics import full_topic, topic_and_cluster
from penstock.control.errors import BrokenCheckpoint
from penstock.spark.redistribute.offsets import SourceOffsets

Inputs = Mapping[str, Input]
"""By the full names of their topics or patterns."""
Sources = Sequence[SourceOffsets | None]


class Read(NamedTuple):
    """A source of the query: the full name of its input, and all topics that some task knows of it. `name` is None for
    a stream."""

    name: str | None
    topics: frozenset[str]


def inputs_of(inputs: Iterable[Input]) -> dict[str, Input]:
    """The inputs by their names. Those of one topic differ in nothing that counts here."""
    return {source.full_topic: source for source in inputs}


def input_of(topic: str, inputs: Inputs) -> Input:
    """The input that reads a topic. Raises BrokenCheckpoint when there is none."""
    found = next((source for source in inputs.values() if source.reads(topic)), None)
    if found is None:
        raise BrokenCheckpoint(f"the checkpoints read {topic}, which is of no input of the job")
    return found


def as_read(source: SourceOffsets | None, inputs: Inputs) -> SourceOffsets | None:
    """The source with the full names of its topics, where they have plain ones of one input only, and without those
    that its input excludes."""
    if source is None or source.line is not None:
        return source
    named = {_full_name(topic, inputs): offsets for topic, offsets in source.topics.items()}
    excluded = {topic for topic in named if any(each.excludes(topic) for each in inputs.values())}
    return replace(source, topics={topic: offsets for topic, offsets in named.items() if topic not in excluded})


def reads_of(tasks: Sequence[Sources], inputs: Inputs, *, begun: bool) -> tuple[Read, ...]:
    """What each source of the query reads, in its order; where no task has `begun`, of those that are noted.

    Raises BrokenCheckpoint when the tasks contradict each other or the job.
    """
    reads: list[Read] = []
    for number in range(max(map(len, tasks))):
        known = [sources[number] for sources in tasks if number < len(sources)]
        noted = [source for source in known if source is not None]
        if not noted and not begun:
            break
        reads.append(_read(number, noted, inputs))
    return tuple(reads)


def _read(number: int, noted: Sequence[SourceOffsets], inputs: Inputs) -> Read:
    if noted and all(source.line is not None for source in noted):
        return Read(None, frozenset())
    topics = frozenset(topic for source in noted for topic in source.topics)
    names = [name for name, each in inputs.items() if noted and all(map(each.reads, topics))]
    if len(names) != 1:
        told = ", ".join(sorted(topics)) or "no topic"
        raise BrokenCheckpoint(f"source {number} of the query reads {told}: expected topics of one input of the job")
    return Read(names[0], topics)


def _full_name(topic: str, inputs: Inputs) -> str:
    if any(source.reads(topic) for source in inputs.values()):
        return topic
    name = topic_and_cluster(topic)[0]
    plain = {full_topic(name, source.cluster) for source in inputs.values()} if name == topic else set()
    named = [each for each in plain if any(source.reads(each) for source in inputs.values())]
    return named[0] if len(named) == 1 else topic
