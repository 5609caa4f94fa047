"""What is wrong with a job's inputs, as Kafka has them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from pyspark.sql import SparkSession

from penstock.config.model import JobConfig
from penstock.config.problems import Problem
from penstock.control.errors import BrokenTask
from penstock.spark.inputs.key_sample import key_function_problem
from penstock.spark.topics import Topic, described

TOPIC_EXISTS = "topic_exists"
PARTITIONS = "key_groups_of_topic"


def input_topics(config: JobConfig, bootstrap: str) -> dict[str, Topic]:
    """The input topics of a job. Raises Unavailable when Kafka does not answer."""
    return described(bootstrap, {source.topic for source in config.inputs.values()})


def check_inputs(
    config: JobConfig, bootstrap: str, topics: Mapping[str, Topic], sampling: SparkSession | None
) -> tuple[Problem, ...]:
    """What Kafka says against the inputs of a job; nothing is created, and the checkpoint is not looked at.

    Rules: `topic_exists`, which a caller may leave out when another job makes the topic later; `topic_readable`;
    `key_groups_of_topic`; and, with a session for `sampling`, `key_function_of_producer`, for which some of the newest
    records are read.

    Raises Unavailable when Kafka does not answer.
    """
    problems = tuple(topic_problems(config, topics))
    if sampling is None:
        return problems
    fields = {problem.field for problem in problems}
    sound = {name: source for name, source in config.inputs.items() if not _has_problem(name, fields)}
    sampled = (key_function_problem(name, source, bootstrap, sampling) for name, source in sound.items())
    return problems + tuple(problem for problem in sampled if problem is not None)


def topic_problems(config: JobConfig, topics: Mapping[str, Topic]) -> Iterator[Problem]:
    """Inputs whose topic is missing, may not be read, or has another number of partitions than `key_groups`. Pure."""
    for name, source in config.inputs.items():
        topic = topics[source.topic]
        found = topic.partitions
        if topic.is_missing:
            yield Problem(f"inputs.{name}.topic", TOPIC_EXISTS, f"inputs.{name}: there is no topic {source.topic}")
        elif found is None or not topic.may_read:
            detail = f"inputs.{name}: the hosts' account may not read the topic {source.topic}: grant it READ"
            yield Problem(f"inputs.{name}.topic", "topic_readable", detail)
        elif found != source.key_groups:
            field = f"inputs.{name}.key_groups"
            what = f"{field} is {source.key_groups}, but the topic {source.topic} has {found} partitions"
            if found < source.key_groups:
                detail = f"{what}: set it to {found}"
            else:
                detail = f"{what}, so {found - source.key_groups} would not be read: set it to {found}"
            yield Problem(field, PARTITIONS, detail)


def require_no_problem(problems: Sequence[Problem], ignored: Collection[str] = ()) -> None:
    """Raises BrokenTask with all problems but those of the ignored rules."""
    told = [problem.detail for problem in problems if problem.rule not in ignored]
    if told:
        raise BrokenTask("; ".join(told))


def _has_problem(name: str, fields: Collection[str]) -> bool:
    return any(field.startswith(f"inputs.{name}.") for field in fields)
