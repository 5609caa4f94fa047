"""Rules of the topics that inputs name, one by one or by a pattern."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.config.model import Input, JobConfig
from penstock.config.problems import Problem
from penstock.config.topic_patterns import matches, problem_of


def topic_problems(config: JobConfig) -> Iterator[Problem]:
    """What is wrong with the names of topics of all inputs."""
    for name, source in config.inputs.items():
        field = f"inputs.{name}"
        if (source.topic is None) == (source.topic_pattern is None):
            detail = f"{field} must have exactly one of topic and topic_pattern"
            yield Problem(f"{field}.topic", "one_topic", detail)
        elif source.topic_pattern is None:
            if source.excluded_topics:
                detail = f"{field}.excluded_topics: topics are left out of those of a topic_pattern, which is absent"
                yield Problem(f"{field}.excluded_topics", "excluded_of_pattern", detail)
        else:
            yield from _pattern(field, source, source.topic_pattern)
            yield from _other_inputs(field, name, source, config)


def _pattern(field: str, source: Input, pattern: str) -> Iterator[Problem]:
    why = problem_of(pattern)
    if why is not None:
        yield Problem(f"{field}.topic_pattern", "topic_pattern", f"{field}.topic_pattern is {pattern}: {why}")
        return
    for topic in source.excluded_topics:
        if not matches(pattern, topic):
            detail = f"{field}.excluded_topics has {topic}, which topic_pattern does not match: leave it out"
            yield Problem(f"{field}.excluded_topics", "excluded_of_pattern", detail)


def _other_inputs(field: str, name: str, source: Input, config: JobConfig) -> Iterator[Problem]:
    """Offsets in a checkpoint name a topic, and not the input: so one input has it. Whether two patterns meet in a
    topic is found where the topics are known (`penstock.spark.inputs.topic_checks`)."""
    for other_name, other in config.inputs.items():
        if other.full_topic == source.full_topic and set(other.excluded_topics) != set(source.excluded_topics):
            detail = f"{field}.excluded_topics: inputs.{other_name} has the same topic_pattern, so give both the same"
            yield Problem(f"{field}.excluded_topics", "topic_of_one_input", detail)
        if other_name != name and other.topic is not None and source.reads(other.full_topic):
            detail = (
                f"{field}.topic_pattern matches {other.full_topic}, the topic of inputs.{other_name}: a topic belongs "
                "to one input. Name it in excluded_topics, or write another pattern"
            )
            yield Problem(f"{field}.topic_pattern", "topic_of_one_input", detail)
