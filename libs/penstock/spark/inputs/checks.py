"""What is wrong with a job's inputs, as Kafka has them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, IllegalArgumentException, PySparkException
from pyspark.sql import SparkSession

from penstock.config.model import Input, JobConfig
from penstock.config.problems import Problem
from penstock.control.errors import BrokenTask, Unavailable
from penstock.kafka.access import Clusters
from penstock.spark.failures import failure_of
from penstock.spark.inputs.key_sample import has_key_rule, key_function_problem
from penstock.spark.inputs.record_sample import as_problem, has_record_rule, record_findings
from penstock.spark.inputs.samples import Samples, Wanted
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
    sampled = (
        key_function_problem(name, source, topic, clusters(source.cluster), sampling)
        for name, source, topic in _sound(config, topics, problems)
    )
    found = tuple(problem for problem in sampled if problem is not None)
    return problems + found + tuple(start_problems(config, clusters, topics))


def take_samples(
    config: JobConfig,
    clusters: Clusters,
    topics: Topics,
    known: Collection[Problem],
    samples: Samples,
    *,
    decodes: bool,
) -> None:
    """Takes the samples that `check_keys` needs, and with `decodes` those of `check_records`. `known`: problems of
    inputs, which are left out."""
    samples.take(
        Wanted(name, source, topic, clusters(source.cluster))
        for name, source, topic in _sound(config, topics, known)
        if has_key_rule(source) or (decodes and has_record_rule(source))
    )


def check_keys(
    config: JobConfig,
    clusters: Clusters,
    topics: Topics,
    known: Collection[Problem],
    session: SparkSession,
    samples: Samples,
) -> Iterator[Problem | Unavailable]:
    """What the newest records of the topics say against `key_function`; Unavailable for each sample that was not looked
    at. `known`: as for `take_samples`."""
    for name, source, topic in _sound(config, topics, known):
        if has_key_rule(source):
            try:
                brokers, found = clusters(source.cluster), samples.of(name, topic)
                problem = key_function_problem(name, source, topic, brokers, session, found)
            except Unavailable as error:
                yield error
            else:
                yield from () if problem is None else (problem,)


def check_records(
    config: JobConfig,
    clusters: Clusters,
    topics: Topics,
    known: Collection[Problem],
    session: SparkSession,
    samples: Samples,
) -> Iterator[Problem | str | Unavailable]:
    """What the newest records of the topics say against `value_schema`: problems, and notes as text; Unavailable for
    each sample that was not looked at. For plans and writes; a start goes by what its batches show. `known`: as for
    `take_samples`, and may be more."""
    for name, source, topic in _sound(config, topics, known):
        if has_record_rule(source):
            try:
                brokers, found = clusters(source.cluster), samples.of(name, topic)
                yield from map(as_problem, record_findings(name, source, topic, brokers, session, found))
            except Unavailable as error:
                yield error
            except (BrokenTask, AnalysisException, IllegalArgumentException):
                # A schema that gives no columns. The analysis says so of the input itself.
                continue
            except (Py4JJavaError, PySparkException) as error:
                told = failure_of(error).error.partition("\n")[0]
                yield Unavailable(f"inputs.{name}: records of the topic {topic} were not decoded: {told}")


def _sound(config: JobConfig, topics: Topics, known: Collection[Problem]) -> Iterator[tuple[str, Input, str]]:
    """The inputs without a problem, each with some of its topics."""
    fields = {problem.field for problem in known}
    for name, source in config.inputs.items():
        if not _has_problem(name, fields):
            yield from ((name, source, topic) for topic in some_of(topics_read(source, topics)))


def require_no_problem(problems: Sequence[Problem], ignored: Collection[str] = ()) -> None:
    """Raises BrokenTask with all problems but those of the ignored rules."""
    told = [problem.detail for problem in problems if problem.rule not in ignored]
    if told:
        raise BrokenTask("; ".join(told))


def _has_problem(name: str, fields: Collection[str]) -> bool:
    return any(field.startswith(f"inputs.{name}.") for field in fields)
