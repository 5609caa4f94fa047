"""The Kafka consumers of a host, which outlive the queries that read with them (`SharedConsumers.java`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from pyspark.sql import SparkSession

from penstock.config.topics import topic_and_cluster
from penstock.spark.topics import Topic

_SETTING = "penstock.kafka.consumers."


def share_consumers(session: SparkSession, job: str, topics: Mapping[str, Topic]) -> None:
    """The query that starts in the session reads `topics` with the consumers of the job's former queries on this host.

    A task that a rescale starts then makes none for its first batch.
    """
    for topic, name in consumer_names(job, topics).items():
        session.conf.set(f"{_SETTING}{topic}", name)


def consumer_names(job: str, topics: Mapping[str, Topic]) -> dict[str, str]:
    """What consumers of each topic are named after: the job and Kafka's id, since a topic that was made again has
    other records. Not of a topic without an id, and of no two topics of one name. Pure."""
    ids = defaultdict[str, list[str | None]](list)
    for full_name, topic in topics.items():
        ids[topic_and_cluster(full_name)[0]].append(topic.id)
    return {name: f"{job}/{found[0]}" for name, found in ids.items() if len(found) == 1 and found[0] is not None}
