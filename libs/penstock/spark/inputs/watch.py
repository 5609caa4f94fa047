"""Looks at the inputs of a host's running tasks again and again: topics grow, and producers change."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from pyspark.sql import SparkSession

from penstock.config.model import Input
from penstock.config.problems import Problem
from penstock.config.topics import topic_and_cluster
from penstock.control.clock import Clock
from penstock.control.errors import BrokenTask, Unavailable
from penstock.control.logs import logger
from penstock.kafka.access import Clusters
from penstock.model.alerts import AlertKind
from penstock.spark.inputs.key_sample import key_function_problem
from penstock.spark.inputs.topic_checks import PARTITIONS, topic_problems
from penstock.spark.topics import Topic, described_on
from penstock.tasks.spec import TaskSpec

log = logger(__name__)

# A sample opens a consumer, so a look takes only some, and each topic's turn comes seldom.
SAMPLE_SECONDS = 1800.0
_SAMPLES_A_LOOK = 4


class _Keys(NamedTuple):
    """What a sample of keys depends on, so that tasks of one job share it."""

    name: str
    full_topic: str
    key_function: str
    key_columns: tuple[str, ...]
    key_groups: int
    format: str
    value_schema: str | None
    csv: str
    protobuf: str


class InputWatch:
    """What is wrong with the inputs of tasks that run. For use by one thread."""

    def __init__(self, session: SparkSession, clusters: Clusters, clock: Clock) -> None:
        self._session = session
        self._clusters = clusters
        self._clock = clock
        self._sampled: dict[_Keys, tuple[float, Problem | None]] = {}

    def check(self, specs: Iterable[TaskSpec]) -> dict[str, dict[str, str]]:
        """By task the kinds of alerts with their reasons; tasks without any are there, too. Left out are tasks with an
        input of a cluster that does not answer."""
        given = list(specs)
        topics = {source.full_topic for spec in given for source in spec.config.inputs.values()}
        known = self._known(topics)
        tasks = [spec for spec in given if all(each.full_topic in known for each in spec.config.inputs.values())]
        self._sample(tasks)
        return {spec.task_id: self._problems(spec, known) for spec in tasks}

    def _known(self, topics: Collection[str]) -> dict[str, Topic]:
        """The topics of the clusters that answer."""
        known: dict[str, Topic] = {}
        for cluster in sorted({topic_and_cluster(topic)[1] for topic in topics}, key=str):
            of_cluster = [topic for topic in topics if topic_and_cluster(topic)[1] == cluster]
            try:
                known |= described_on(self._clusters, of_cluster)
            except (Unavailable, BrokenTask) as error:
                log.warning("inputs not looked at", cluster=cluster, error=error.detail)
        return known

    def _problems(self, spec: TaskSpec, topics: Mapping[str, Topic]) -> dict[str, str]:
        found: dict[str, str] = {}
        for problem in topic_problems(spec.config, topics):
            if problem.rule == PARTITIONS:
                found.setdefault(AlertKind.PARTITIONS_NOT_READ, problem.detail)
        for name, source in spec.config.inputs.items():
            _, keys = self._sampled.get(_keys(name, source), (0.0, None))
            if keys is not None:
                found.setdefault(AlertKind.KEY_FUNCTION_MISMATCH, keys.detail)
        return found

    def _sample(self, tasks: Iterable[TaskSpec]) -> None:
        now = self._clock.monotonic()
        wanted = {
            _keys(name, source): (name, source)
            for spec in tasks
            for name, source in spec.config.inputs.items()
            if source.key_function != "none"
        }
        self._sampled = {keys: known for keys, known in self._sampled.items() if keys in wanted}
        due = [keys for keys in wanted if keys not in self._sampled or now - self._sampled[keys][0] >= SAMPLE_SECONDS]
        for keys in due[:_SAMPLES_A_LOOK]:
            name, source = wanted[keys]
            try:
                self._sampled[keys] = (
                    now,
                    key_function_problem(name, source, self._clusters(source.cluster), self._session),
                )
            except Unavailable as error:
                log.warning("keys not sampled", topic=source.full_topic, error=error.detail)


def _keys(name: str, source: Input) -> _Keys:
    read_as = (source.format, source.value_schema, source.csv.model_dump_json(), source.protobuf.model_dump_json())
    return _Keys(name, source.full_topic, source.key_function, source.key_columns, source.key_groups, *read_as)
