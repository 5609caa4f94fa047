"""All that can be said against a job before a task of it runs.

The query is built as a task builds it, in a session of its own. No query is started, and nothing is created.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from penstock.config.keygroups import KeyGroupRange
from penstock.config.model import JobConfig
from penstock.config.paths import path_fields
from penstock.config.plan_dataflow import PlanFacts
from penstock.config.problems import Problem
from penstock.control.errors import Unavailable
from penstock.kafka.settings import KNOWN_CLUSTER
from penstock.spark.analysis.placement import placement
from penstock.spark.analysis.problem_of import problem_of
from penstock.spark.analysis.readable import require_readable_stream, require_readable_table
from penstock.spark.balance import limit_options
from penstock.spark.inputs.checks import check_keys, check_records, take_samples
from penstock.spark.inputs.key_sample import START_SECONDS
from penstock.spark.inputs.samples import Samples
from penstock.spark.inputs.starts import start_problems
from penstock.spark.inputs.subjects import schemas_as_the_registry_has_them
from penstock.spark.inputs.topic_checks import Topics, input_topics, late_producer_problems, topic_problems
from penstock.spark.parts import login_problems, require_clusters
from penstock.spark.paths import require_allowed
from penstock.spark.query import result_of
from penstock.spark.session import release_frames, task_session
from penstock.spark.settings import SparkSettings
from penstock.spark.sinks import check
from penstock.spark.sinks.parts import part_checks
from penstock.spark.sources import read_input
from penstock.spark.streams import batch_limits, read_stream
from penstock.spark.tables import read_table
from penstock.spark.task import Runtime
from penstock.tasks.analysis import AnalysisReport, AnalysisRequest, Operator

_ANY_PART = KeyGroupRange(0, 1)
_LEAST_SECONDS = 0.05
_SHARE_OF_KAFKA = 0.5
"""Of the time that the caller of an analysis waits."""


@dataclass
class Analysis:
    """What was found of a job. `query`: the field of its query. `notes`: what refuses nothing. `frame`: the query's
    result; None when it could not be analysed."""

    query: str
    problems: list[Problem] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    logins: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    frame: DataFrame | None = None
    facts: PlanFacts = field(default_factory=PlanFacts)

    def report(self) -> AnalysisReport:
        """The findings as data."""
        columns = None
        if self.frame is not None:
            columns = {column.name: column.dataType.simpleString() for column in self.frame.schema.fields}
        steps = (
            Operator(operation=step.operation, inputs=tuple(sorted(step.inputs)), by=step.by, colocated=step.colocated)
            for step in self.facts.steps
        )
        return AnalysisReport(
            problems=tuple(self.problems),
            unchecked=tuple(dict.fromkeys(self.unchecked)),
            columns=columns,
            operators=tuple(steps),
            logins=tuple(dict.fromkeys(self.logins)),
            notes=tuple(self.notes),
        )

    def take(self, findings: Iterable[Problem | str | Unavailable], where: str = "inputs") -> None:
        """Keeps problems, notes, which are texts, and what could not be looked at of the field `where`."""
        for each in findings:
            if isinstance(each, str):
                self.notes.append(each)
            elif isinstance(each, Unavailable):
                self._not_looked_at(each, where)
            else:
                self.problems.append(each)

    @contextmanager
    def catching(self, where: str, rule: str = "can_run") -> Iterator[None]:
        """An error in the body is a problem with the field `where`, unless it says another."""
        try:
            yield
        except Unavailable as error:
            self._not_looked_at(error, where)
        except Exception as error:  # noqa: BLE001 -- what a query or schema raises is the job's
            self.problems.append(problem_of(error, where, rule, self.query))

    def _not_looked_at(self, error: Unavailable, where: str) -> None:
        self.unchecked.append(error.detail)
        self.logins += login_problems(where, error)


@dataclass(frozen=True)
class _Looked:
    """What Kafka told of the inputs: their topics, problems of these, and samples of those without a problem."""

    topics: Topics
    problems: tuple[Problem, ...]
    samples: Samples


def analyse_job(runtime: Runtime, request: AnalysisRequest) -> AnalysisReport:
    """The findings about a job, for who writes it. The tasks of the host go on."""
    try:
        within = request.within_seconds
        return analyse(runtime.spark, runtime.settings, request.job, request.config, within_seconds=within).report()
    finally:
        release_frames()


def analyse(
    spark: SparkSession,
    settings: SparkSettings,
    job: str,
    config: JobConfig,
    *,
    decodes_sample: bool = True,
    within_seconds: float | None = None,
) -> Analysis:
    """Analyses a job in a session of its own. Raises nothing that is the job's fault. Each check may find that a server
    does not answer; then it is reported as not made.

    `decodes_sample`: whether the newest records are compared with `value_schema`. No start is refused for these. They
    are compared last, since that takes most time. `within_seconds`: for how long the caller waits. Half of it is for
    Kafka, so that a slow one leaves time for the rest; None: Kafka has the time that a start gives it.
    """
    found = Analysis("query.sql" if config.query.sql is not None else "query.python")
    until = None if within_seconds is None else monotonic() + within_seconds * _SHARE_OF_KAFKA
    looked_at = _kafka(spark, config, settings, found, until, decodes_sample=decodes_sample)
    with found.catching("inputs"):
        found.take(schemas_as_the_registry_has_them(spark, config, settings))
    if any(problem.rule == KNOWN_CLUSTER for problem in found.problems):
        return found
    with found.catching("spark_settings", "spark_setting"):
        session = task_session(spark, config, checkpoint="", token="", unlocked=True)
        inputs = _inputs(session, config, settings, found)
        tables = _tables(session, config, settings, found)
        if len(inputs) == len(config.inputs) + len(config.streams) and len(tables) == len(config.tables):
            _query(session, inputs, tables, job, config, settings, found)
    if decodes_sample and looked_at is not None:
        topics, problems, samples = looked_at.topics, looked_at.problems, looked_at.samples
        with found.catching("inputs"):
            found.take(check_records(config, settings.cluster, topics, problems, spark, samples))
    return found


def _kafka(
    spark: SparkSession,
    config: JobConfig,
    settings: SparkSettings,
    found: Analysis,
    until: float | None,
    *,
    decodes_sample: bool,
) -> _Looked | None:
    """Finds what is wrong with the inputs: their partitions, where to begin, and a sample of their keys. None where
    Kafka does not tell the topics. What it does not tell until then of offsets and samples leaves the rest as it is."""
    clusters, left = settings.cluster, None if until is None else max(_LEAST_SECONDS, until - monotonic())
    with found.catching("inputs"):
        require_clusters(config, settings)
        topics = input_topics(config, clusters, within_seconds=left)
        problems = list(topic_problems(config, topics))
        found.take((*problems, *late_producer_problems(config, topics)))
        samples = Samples(START_SECONDS if until is None else until - monotonic())
        take_samples(config, clusters, topics, problems, samples, decodes=decodes_sample)
        keys = list(check_keys(config, clusters, topics, problems, spark, samples))
        found.take(keys)
        problems += [each for each in keys if isinstance(each, Problem)]
        with found.catching("inputs"):
            starts = list(start_problems(config, clusters, topics, until))
            found.take(starts)
            problems += starts
        return _Looked(topics, tuple(problems), samples)
    return None


def _inputs(session: SparkSession, config: JobConfig, settings: SparkSettings, found: Analysis) -> dict[str, DataFrame]:
    """The frames of the inputs that can be read."""
    frames = {}
    limits = limit_options(config)
    for name, source in config.inputs.items():
        if source.schema_registry and settings.kafka.registry is None:
            continue  # A check has said so.
        with found.catching(f"inputs.{name}.value_schema"):
            frames[name] = read_input(session, name, source, _ANY_PART, settings, limits)
    for name, stream in config.streams.items():
        with found.catching(f"streams.{name}.path"):
            require_readable_stream(session, name, config, settings)
            with found.catching(f"streams.{name}"):
                frames[name] = read_stream(session, name, stream, batch_limits(config), settings.path_roots)
    return frames


def _tables(session: SparkSession, config: JobConfig, settings: SparkSettings, found: Analysis) -> dict[str, DataFrame]:
    """The frames of the tables that can be read."""
    frames = {}
    for name, table in config.tables.items():
        with found.catching(f"tables.{name}.path"):
            require_readable_table(session, name, config, settings)
            frames[name] = read_table(session, name, table, config.args, settings.path_roots)
    return frames


def _query(
    session: SparkSession,
    inputs: dict[str, DataFrame],
    tables: dict[str, DataFrame],
    job: str,
    config: JobConfig,
    settings: SparkSettings,
    found: Analysis,
) -> None:
    with found.catching(found.query):
        found.frame = result_of(session, inputs, config, settings, tables)
    if found.frame is None:
        return
    with found.catching(found.query):
        problems, found.facts = placement(found.frame, inputs, config)
        found.problems += problems
    with found.catching("output_mode", "unsupported_operation"):
        require_supported(found.frame, config.output_mode)
    paths = dict(path_fields(config))
    for output in config.outputs:
        known = len(found.problems)
        for check_part in part_checks(found.frame, config, output):
            with found.catching(output):
                check_part()
        if len(found.problems) > known:
            continue
        with found.catching(output):
            if f"{output}.path" in paths:
                require_allowed(f"{output}.path", paths[f"{output}.path"], settings.path_roots)
            check(found.frame, job, config, settings, output)


def require_supported(frame: DataFrame, output_mode: str) -> None:
    """Has Spark check, as it does at the start of a query, that it can run the operators as a stream.

    Raises AnalysisException.
    """
    jvm: Any = frame.sparkSession._jvm
    catalyst = jvm.org.apache.spark.sql.catalyst
    mode = catalyst.streaming.InternalOutputModes.apply(output_mode)
    catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(frame._jdf.queryExecution().analyzed(), mode)
