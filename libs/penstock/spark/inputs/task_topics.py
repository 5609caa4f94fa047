"""The input topics of one task, with those that its checkpoint has taken in of a pattern."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.config.model import JobConfig
from penstock.control.errors import BrokenTask
from penstock.kafka.access import Clusters
from penstock.spark.checkpoint import topics_in_offsets
from penstock.spark.files import Files
from penstock.spark.inputs.identity import forget_other_topics, require_same_topics
from penstock.spark.inputs.topic_checks import Topics, has_pattern, input_topics
from penstock.spark.topics import Topic


def task_topics(config: JobConfig, clusters: Clusters, files: Files, checkpoint: str) -> dict[str, Topic]:
    """Of a pattern those that the task reads; before its first batch all that there are. So a topic that it would not
    read says nothing against its next start.

    Raises Unavailable when Kafka does not answer, BrokenCheckpoint when the checkpoint cannot be read, BrokenTask when
    it has offsets of a topic that no input names.
    """
    known = topics_in_offsets(checkpoint, files) if has_pattern(config) else frozenset[str]()
    _require_named(config, known)
    return input_topics(config, clusters, known=known)


def _require_named(config: JobConfig, known: Iterable[str]) -> None:
    """The source would pass over such a topic without a word."""
    for topic in sorted(known):
        if not any(source.reads(topic) or source.excludes(topic) for source in config.inputs.values()):
            raise BrokenTask(
                f"inputs: the job has read {topic}, which no topic_pattern matches: write one that does, and name the "
                "topic in excluded_topics if it is not to be read any more",
                rule="topic_matches_pattern",
            )


def take_topics(config: JobConfig, files: Files, checkpoint: str, topics: Topics) -> None:
    """Notes the topics of a task that starts. Raises BrokenTask when one was made again since it was noted."""
    if has_pattern(config):
        # The offsets of an excluded topic stand there until a batch has left them out.
        forget_other_topics(files, checkpoint, topics_in_offsets(checkpoint, files) | topics.keys())
    require_same_topics(files, checkpoint, topics)
