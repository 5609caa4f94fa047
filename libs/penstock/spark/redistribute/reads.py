"""Which input each source of a query reads. Pure.

The checkpoint of a task names the topics of a source, and not its input. With a pattern of topics, tasks may have seen
different ones of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from penstock.config.model import Input
from penstock.config.stream_names import is_stream_log
from penstock.config.topics import full_topic, topic_and_cluster
from penstock.control.errors import BrokenCheckpoint
from penstock.spark.redistribute.offsets import SourceOffsets

Inputs = Mapping[str, Input]
"""By the full names of their topics or patterns."""
Sources = Sequence[SourceOffsets | None]


class Read(NamedTuple):
    """A source of the query: the full name of its input, and all topics that some task knows of it. `name` is None for
    a stream with one key group; of one with several it is the name of the stream in offsets."""

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
    that an input excludes and none reads."""
    if source is None or source.line is not None:
        return source
    named = {_full_name(topic, inputs): offsets for topic, offsets in source.topics.items()}
    return replace(source, topics={topic: offsets for topic, offsets in named.items() if not _is_left(topic, inputs)})


def reads_of(tasks: Sequence[Sources], inputs: Inputs, *, begun: bool) -> tuple[Read, ...]:
    """What each source of the query reads, in its order; where no task has `begun`, of those that are noted.

    Raises BrokenCheckpoint when the tasks contradict each other or the job.
    """
    found: list[Read | None] = []
    for number in range(max(map(len, tasks))):
        known = [sources[number] for sources in tasks if number < len(sources)]
        noted = [source for source in known if source is not None]
        if not noted and not begun:
            break
        found.append(_read(number, noted, inputs))
    claimed = {read.name for read in found if read is not None}
    return tuple(_of_no_topic(number, claimed, inputs) if read is None else read for number, read in enumerate(found))


def _read(number: int, noted: Sequence[SourceOffsets], inputs: Inputs) -> Read | None:
    """None for a source that has taken in no topic, or had only topics that are excluded now."""
    if noted and all(source.line is not None for source in noted):
        return Read(None, frozenset())
    topics = frozenset(topic for source in noted for topic in source.topics)
    if noted and not topics:
        return None
    if len(topics) == 1 and all(map(is_stream_log, topics)):
        return Read(next(iter(topics)), topics)
    names = [name for name, each in inputs.items() if noted and all(map(each.reads, topics))]
    if len(names) != 1:
        raise _unclear(number, topics)
    return Read(names[0], topics)


def _of_no_topic(number: int, claimed: Collection[str | None], inputs: Inputs) -> Read:
    """A source without topics is of a pattern that no other source reads. Several such patterns have nothing to tell
    them apart, and no offsets to mistake: it is any of them."""
    rest = [each for name, each in inputs.items() if name not in claimed] or list(inputs.values())
    of_patterns = [each for each in rest if each.topic is None]
    if not rest or len(of_patterns) != len(rest):
        raise _unclear(number, ())
    return Read(of_patterns[0].full_topic, frozenset())


def _unclear(number: int, topics: Collection[str]) -> BrokenCheckpoint:
    told = ", ".join(sorted(topics)) or "no topic"
    return BrokenCheckpoint(f"source {number} of the query reads {told}: expected topics of one input of the job")


def _is_left(topic: str, inputs: Inputs) -> bool:
    """Whether the job reads a topic no more. What one input excludes may be another one's."""
    return any(each.excludes(topic) for each in inputs.values()) and not any(
        each.reads(topic) for each in inputs.values()
    )


def _full_name(topic: str, inputs: Inputs) -> str:
    if any(source.reads(topic) for source in inputs.values()):
        return topic
    name = topic_and_cluster(topic)[0]
    plain = {full_topic(name, source.cluster) for source in inputs.values()} if name == topic else set()
    named = [each for each in plain if any(source.reads(each) for source in inputs.values())]
    return named[0] if len(named) == 1 else topic
