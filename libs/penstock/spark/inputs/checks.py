"""What is wrong with a job's inputs, as Kafka has them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from penstock.config.model import JobConfig
from penstock.config.problems import Problem
from penstock.control.errors import BrokenTask
from penstock.spark.inputs.key_sample import key_function_problem
from penstock.spark.inputs.topics import partition_counts

TOPIC_EXISTS = "topic_exists"
PARTITIONS = "key_groups_of_topic"


def check_inputs(config: JobConfig, bootstrap: str, *, sample: bool) -> tuple[Problem, ...]:
    """What Kafka says against the inputs of a job; nothing is created, and the checkpoint is not looked at.

    Rules: `topic_exists`, which a caller may leave out when another job makes the topic later; `key_groups_of_topic`;
    and with `sample` `key_function_of_producer`, for which some of the newest records are read.

    Raises Unavailable when Kafka does not answer.
    """
    counts = partition_counts(bootstrap, {source.topic for source in config.inputs.values()})
    problems = tuple(partition_problems(config, counts))
    if not sample:
        return problems
    fields = {problem.field for problem in problems}
    sound = {name: source for name, source in config.inputs.items() if not _has_problem(name, fields)}
    sampled = (key_function_problem(name, source, bootstrap) for name, source in sound.items())
    return problems + tuple(problem for problem in sampled if problem is not None)


def partition_problems(config: JobConfig, counts: Mapping[str, int | None]) -> Iterator[Problem]:
    """Inputs whose topic is missing or has another number of partitions than `key_groups`. Pure."""
    for name, source in config.inputs.items():
        found = counts[source.topic]
        if found is None:
            yield Problem(f"inputs.{name}.topic", TOPIC_EXISTS, f"inputs.{name}: there is no topic {source.topic}")
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
