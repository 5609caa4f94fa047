"""What Kafka says of a job's input topics, known without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from penstock.config.model import JobConfig
from penstock.config.problems import Problem
from penstock.kafka.access import Clusters
from penstock.spark.topics import Topic, described_on

TOPIC_EXISTS = "topic_exists"
PARTITIONS = "key_groups_of_topic"


def input_topics(config: JobConfig, clusters: Clusters, *, within_seconds: float | None = None) -> dict[str, Topic]:
    """The input topics of a job, by their full names. Raises Unavailable when Kafka does not answer."""
    topics = {source.full_topic for source in config.inputs.values()}
    return described_on(clusters, topics, within_seconds=within_seconds)


def topic_problems(config: JobConfig, topics: Mapping[str, Topic]) -> Iterator[Problem]:
    """Inputs whose topic is missing, may not be read, or has another number of partitions than `key_groups`. Pure."""
    for name, source in config.inputs.items():
        topic, told = topics[source.full_topic], source.full_topic
        found = topic.partitions
        if topic.is_missing:
            yield Problem(f"inputs.{name}.topic", TOPIC_EXISTS, f"inputs.{name}: there is no topic {told}")
        elif found is None or not topic.may_read:
            detail = f"inputs.{name}: the hosts' account may not read the topic {told}: grant it READ"
            yield Problem(f"inputs.{name}.topic", "topic_readable", detail)
        elif found != source.key_groups:
            field = f"inputs.{name}.key_groups"
            what = f"{field} is {source.key_groups}, but the topic {told} has {found} partitions"
            if found < source.key_groups:
                detail = f"{what}: set it to {found}"
            else:
                detail = f"{what}, so {found - source.key_groups} would not be read: set it to {found}"
            yield Problem(field, PARTITIONS, detail)
