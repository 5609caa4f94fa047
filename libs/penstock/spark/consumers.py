"""The Kafka consumers of a host, which outlive the queries that read with them (`SharedConsumers.java`).

The tasks that a rescale starts read with those of the tasks before them, and make none for their first batch. What a
row costs is known with the consumers, too, so that one Spark task reads a batch of few rows. Once the job has another
query, neither is used any more, nor is the pace that its batches have come to (`SourcePace.java`).
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Mapping

from pyspark.sql import SparkSession

from penstock.config.model import JobConfig
from penstock.config.topics import topic_and_cluster
from penstock.spark.topics import Topic
from penstock.tasks.spec import TaskSpec

_SETTING = "penstock.kafka.consumers."
_QUERY = "penstock.query"
_COSTS = {"package", "query", "args", "inputs", "streams", "tables", "output", "side_outputs", "spark_settings"}


class Consumers:
    """Which consumers the queries of a host read with. From any thread."""

    def __init__(self) -> None:
        self._failures = Counter[str]()

    def share(self, session: SparkSession, spec: TaskSpec, topics: Mapping[str, Topic], *, alone: bool = False) -> None:
        """The query that starts in the session reads `topics` with the consumers of the job's former queries.

        `alone`: with its own, whatever a former query of the session had.
        """
        session.conf.set(_QUERY, query_digest(spec.config))
        for topic, name in consumer_names(spec.job, self._failures[spec.job], spec.config, topics).items():
            if alone:
                session.conf.unset(f"{_SETTING}{topic}")
            else:
                session.conf.set(f"{_SETTING}{topic}", name)

    def failed(self, job: str) -> None:
        """A query of the job has failed, or did not end: the next ones read with consumers of their own, since it may
        be due to a consumer, e.g. one whose certificate has expired."""
        self._failures[job] += 1


def consumer_names(job: str, failures: int, config: JobConfig, topics: Mapping[str, Topic]) -> dict[str, str]:
    """What consumers of each topic are named after: the job, its failures, its query, since what a row costs is known
    by the name, and Kafka's id of the topic, since one that was made again has other records. Topics are left out that
    have no id, that several inputs read, or that share a name with another topic. Pure."""
    digest = query_digest(config)
    ids = defaultdict[str, list[str | None]](list)
    for full_name, topic in topics.items():
        readers = sum(source.reads(full_name) for source in config.inputs.values())
        ids[topic_and_cluster(full_name)[0]].append(topic.id if readers == 1 else None)
    return {
        name: f"{job}/{failures}/{digest}/{found[0]}"
        for name, found in ids.items()
        if len(found) == 1 and found[0] is not None
    }


def query_digest(config: JobConfig) -> str:
    """The same for two configurations in which a row costs about the same: of what a row is made of, what is done with
    it, and where it goes. Not of the number of tasks or of limits of batches. Pure."""
    told = json.dumps(config.model_dump(mode="json", include=_COSTS), sort_keys=True)
    return hashlib.md5(told.encode(), usedforsecurity=False).hexdigest()[:16]
