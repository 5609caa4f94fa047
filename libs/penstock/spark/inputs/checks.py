"""What is wrong with a job's inputs, as Kafka has them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pyspark.sql import SparkSession

from penstock.config.model import JobConfig
from penstock.config.problems import Problem
from penstock.control.errors import BrokenTask
from penstock.kafka.access import Clusters
from penstock.spark.inputs.key_sample import key_function_problem
from penstock.spark.inputs.starts import start_problems
from penstock.spark.inputs.topic_checks import Topics, some_of, topic_problems, topics_read


def check_inputs(
    config: JobConfig, clusters: Clusters, topics: Topics, sampling: SparkSession | None
) -> tuple[Problem, ...]:
    """What Kafka says against the inputs of a job; nothing is created, and the checkpoint is not looked at.

    Rules: `topic_exists`, which a caller may leave out when another job makes the topic later; `topic_readable`;
    `key_groups_of_topic`; and, with a session for `sampling`, `key_function_of_producer`, for which some of the newest
    records are read, and what is wrong with offsets to begin at (`starts.py`).

    Raises Unavailable when Kafka does not answer.
    """
    problems = tuple(topic_problems(config, topics))
    if sampling is None:
        return problems
    fields = {problem.field for problem in problems}
    sound = {name: source for name, source in config.inputs.items() if not _has_problem(name, fields)}
    sampled = (
        key_function_problem(name, source, topic, clusters(source.cluster), sampling)
        for name, source in sound.items()
        for topic in some_of(topics_read(source, topics))
    )
    found = tuple(problem for problem in sampled if problem is not None)
    return problems + found + tuple(start_problems(config, clusters, topics))


def require_no_problem(problems: Sequence[Problem], ignored: Collection[str] = ()) -> None:
    """Raises BrokenTask with all problems but those of the ignored rules."""
    told = [problem.detail for problem in problems if problem.rule not in ignored]
    if told:
        raise BrokenTask("; ".join(told))


def _has_problem(name: str, fields: Collection[str]) -> bool:
    return any(field.startswith(f"inputs.{name}.") for field in fields)
