"""What Kafka says of a job's input topics, known without Spark."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from penstock.config.model import Input, JobConfig
from penstock.config.problems import Problem
from penstock.config.topic_patterns import matches
from penstock.config.topics import full_topic, topic_and_cluster
from penstock.control.errors import Unavailable
from penstock.control.texts import likely
from penstock.kafka.access import Clusters
from penstock.spark.producers import marks_topic
from penstock.spark.topics import Topic, described_on, listed

TOPIC_EXISTS = "topic_exists"
LATE_PRODUCERS = "late_producers"
PARTITIONS = "key_groups_of_topic"
READABLE = "topic_readable"
# To sample a topic, or to ask for its schema, takes a fraction of a second.
_MOST_TOPICS = 4
_ANY = ".*"
Topics = Mapping[str, Topic]
"""By their full names."""


def input_topics(
    config: JobConfig, clusters: Clusters, *, known: Collection[str] = (), within_seconds: float | None = None
) -> dict[str, Topic]:
    """The input topics of a job. Of a pattern those that a task has offsets of, `known`; all that there are, where it
    has none. Raises Unavailable when Kafka does not answer."""
    return topics_of(config.inputs.values(), clusters, known=known, within_seconds=within_seconds)


def topics_of(
    sources: Iterable[Input], clusters: Clusters, *, known: Collection[str] = (), within_seconds: float | None = None
) -> dict[str, Topic]:
    """As `input_topics`, of some inputs."""
    given = list(sources)
    names = {source.full_topic for source in given if source.topic is not None}
    patterns = [source for source in given if source.topic is None]
    candidates, marked = set(known), set[str]()
    for cluster in {source.cluster for source in patterns if not known}:
        found = listed(clusters(cluster), within_seconds=within_seconds)
        candidates |= {full_topic(topic, cluster) for topic in found}
        marked |= {full_topic(topic, cluster) for topic in found if marks_topic(topic) in found}
    names |= {name for name in candidates if any(source.reads(name) for source in patterns)}
    topics = described_on(clusters, names, within_seconds=within_seconds)
    return {
        name: _with_likely(name, topic._replace(has_marks=name in marked), clusters, within_seconds)
        for name, topic in topics.items()
    }


def _with_likely(name: str, topic: Topic, clusters: Clusters, within_seconds: float | None) -> Topic:
    """A missing topic with what there is. A broker that does not list its topics says nothing about this one."""
    if not topic.is_missing:
        return topic
    short, cluster = topic_and_cluster(name)
    with suppress(Unavailable):
        known = listed(clusters(cluster), within_seconds=within_seconds)
        return topic._replace(instead=likely(short, [each for each in known if matches(_ANY, each)]))
    return topic


def has_pattern(config: JobConfig) -> bool:
    """Whether some input reads topics by a pattern, so that they may become more."""
    return any(source.topic is None for source in config.inputs.values())


def topics_read(source: Input, topics: Iterable[str]) -> list[str]:
    """Those of the topics that an input reads, by name."""
    return sorted(filter(source.reads, topics))


def some_of(topics: Sequence[str]) -> Sequence[str]:
    """A few of the topics of an input, from the first to the last. Pure."""
    return topics[:: max(1, -(-len(topics) // _MOST_TOPICS))]


def topic_problems(config: JobConfig, topics: Topics) -> Iterator[Problem]:
    """Inputs whose topic is missing, may not be read, or has another number of partitions than `key_groups`; of a
    pattern, whose topic another input reads, too. Pure."""
    for name, source in config.inputs.items():
        field = f"inputs.{name}"
        if source.topic is not None:
            yield from _one(field, source, topics[source.full_topic])
            continue
        found = topics_read(source, topics)
        if not found:
            yield Problem(f"{field}.topic_pattern", TOPIC_EXISTS, f"{field}: no topic matches {source.full_topic}")
        for topic in found:
            detail = _one_of_several(source, topic, topics[topic])
            if detail is not None:
                yield Problem(f"{field}.topic_pattern", detail[0], f"{field}.topic_pattern: the topic {detail[1]}")
            yield from _shared(field, source, topic, config)


def late_producer_problems(config: JobConfig, topics: Topics) -> Iterator[Problem]:
    """Inputs with event time whose watermark does not wait for the tasks that write their topics: those of a pattern.
    Pure."""
    for name, source in config.inputs.items():
        if source.topic is not None or source.watermark_delay is None or source.allow_late_producers:
            continue
        marked = [topic for topic in topics_read(source, topics) if topics[topic].has_marks]
        if marked:
            field = f"inputs.{name}.allow_late_producers"
            detail = (
                f"{field}: jobs write {', '.join(some_of(marked))}, and the watermark of a topic_pattern does not wait "
                "for their tasks, so rows of a slow one may be late. Read them by `topic`, one input each, or set it"
            )
            yield Problem(field, LATE_PRODUCERS, detail)


def _one(field: str, source: Input, topic: Topic) -> Iterator[Problem]:
    found, told = topic.partitions, source.full_topic
    if topic.is_missing:
        instead = f"; {topic.instead}" if topic.instead else ""
        yield Problem(f"{field}.topic", TOPIC_EXISTS, f"{field}: there is no topic {told}{instead}")
    elif found is None or not topic.may_read:
        detail = f"{field}: the hosts' account may not read the topic {told}: grant it READ"
        yield Problem(f"{field}.topic", READABLE, detail)
    elif found != source.key_groups:
        field = f"{field}.key_groups"
        what = f"{field} is {source.key_groups}, but the topic {told} has {found} partitions"
        if found < source.key_groups:
            detail = f"{what}: set it to {found}"
        else:
            detail = f"{what}, so {found - source.key_groups} would not be read: set it to {found}"
        yield Problem(field, PARTITIONS, detail)


def _one_of_several(source: Input, name: str, topic: Topic) -> tuple[str, str] | None:
    """The rule that a topic of a pattern breaks, and why."""
    exclude = "or name it in excluded_topics"
    if topic.is_missing:
        return "topic_is_there", f"{name}, which the pattern matched, was deleted: restore it, {exclude}"
    if topic.partitions is None or not topic.may_read:
        return READABLE, f"{name} may not be read by the hosts' account: grant it READ, {exclude}"
    if topic.partitions != source.key_groups:
        what = f"{name} has {topic.partitions} partitions, and key_groups is {source.key_groups}"
        return PARTITIONS, f"{what}: all topics of an input have as many. Make it anew, {exclude}"
    return None


def _shared(field: str, source: Input, topic: str, config: JobConfig) -> Iterator[Problem]:
    """Offsets in a checkpoint name a topic, and not the input."""
    for name, other in config.inputs.items():
        if other.full_topic != source.full_topic and other.reads(topic):
            detail = f"{field}.topic_pattern: the topic {topic} is of inputs.{name}, too: name it in excluded_topics"
            yield Problem(f"{field}.topic_pattern", "topic_of_one_input", detail)
