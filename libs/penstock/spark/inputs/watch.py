"""Looks at the inputs of a host's running tasks again and again: topics grow, and producers change."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from types import MappingProxyType
from typing import NamedTuple

from pyspark.sql import SparkSession

from penstock.config.model import Input
from penstock.config.problems import Problem
from penstock.control.clock import Clock
from penstock.control.errors import BrokenTask, Unavailable
from penstock.control.logs import logger
from penstock.kafka.access import Clusters
from penstock.model.alerts import AlertKind
from penstock.spark.inputs.identity import CREATE_AGAIN
from penstock.spark.inputs.key_sample import key_function_problem
from penstock.spark.inputs.topic_checks import (
    PARTITIONS,
    READABLE,
    TOPIC_EXISTS,
    Topics,
    late_producer_problems,
    topic_problems,
    topics_of,
    topics_read,
)
from penstock.spark.topics import Topic
from penstock.tasks.spec import TaskSpec

log = logger(__name__)

# A sample opens a consumer, so a look takes only some, and each topic's turn comes seldom.
SAMPLE_SECONDS = 1800.0
_SAMPLES_A_LOOK = 4
AGAIN_SECONDS = 10.0
"""So soon comes the second look at an input that cannot be read: more than a broker that just started needs to know its
topics."""


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
        # What the last look saw, of the clusters that answered.
        self._topics: Topics = {}
        # By task, the inputs that could not be read in the last look at them.
        self._unread: dict[str, Set[str]] = {}
        self._is_unsure = False

    def wait_seconds(self, usual: float) -> float:
        """Until the next look: less than usual where one is to show that an input can still not be read."""
        return min(usual, AGAIN_SECONDS) if self._is_unsure else usual

    def check(
        self, specs: Iterable[TaskSpec], begun: Mapping[str, Topics] = MappingProxyType({})
    ) -> dict[str, dict[str, str]]:
        """By task the kinds of alerts with their reasons; tasks without any are there, too. Left out are tasks with an
        input of a cluster that does not answer.

        An input that cannot be read is told after two looks in a row that saw it; one in which the cluster does not
        answer does not count. `begun`: by task, its input topics when it started."""
        given = list(specs)
        answering = self._look([source for spec in given for source in spec.config.inputs.values()])
        tasks = [spec for spec in given if all(each.cluster in answering for each in spec.config.inputs.values())]
        self._sample(tasks)
        found = {spec.task_id: _unreadable(spec, begun.get(spec.task_id, {}), self._topics) for spec in tasks}
        sure = self._sure_of(found, {spec.task_id for spec in given})
        return {spec.task_id: self._problems(spec, sure[spec.task_id]) for spec in tasks}

    def _sure_of(self, found: Mapping[str, Mapping[str, str]], asked: Set[str]) -> dict[str, dict[str, str]]:
        """What the look before saw, too. Of a task whose cluster did not answer that look still counts."""
        before = {task_id: self._unread.get(task_id, frozenset()) for task_id in found}
        kept = {task_id: inputs for task_id, inputs in self._unread.items() if task_id in asked}
        self._unread = kept | {task_id: frozenset(inputs) for task_id, inputs in found.items()}
        self._is_unsure = any(inputs.keys() - before[task_id] for task_id, inputs in found.items())
        return {
            task_id: {name: why for name, why in inputs.items() if name in before[task_id]}
            for task_id, inputs in found.items()
        }

    def _look(self, sources: Collection[Input]) -> set[str | None]:
        """Looks at the topics; the clusters that answer."""
        known: dict[str, Topic] = {}
        answering: set[str | None] = set()
        for cluster in sorted({source.cluster for source in sources}, key=str):
            try:
                known |= topics_of([source for source in sources if source.cluster == cluster], self._clusters)
                answering.add(cluster)
            except (Unavailable, BrokenTask) as error:
                log.warning("inputs not looked at", cluster=cluster, error=error.detail)
        self._topics = known
        return answering

    def _problems(self, spec: TaskSpec, unreadable: Mapping[str, str]) -> dict[str, str]:
        """`unreadable`: by input, why it cannot be read."""
        found: dict[str, str] = {}
        for why in unreadable.values():
            found.setdefault(AlertKind.INPUT_UNREADABLE, why)
        for problem in topic_problems(spec.config, self._topics):
            if problem.rule == PARTITIONS or _is_topic_left_out(problem):
                found.setdefault(AlertKind.PARTITIONS_NOT_READ, problem.detail)
        for problem in late_producer_problems(spec.config, self._topics):
            found.setdefault(AlertKind.NOT_AWAITED, problem.detail)
        for keys in self._keys_of(spec):
            _, mismatch = self._sampled.get(keys, (0.0, None))
            if mismatch is not None:
                found.setdefault(AlertKind.KEY_FUNCTION_MISMATCH, mismatch.detail)
        return found

    def _keys_of(self, spec: TaskSpec) -> dict[_Keys, Input]:
        return {
            _keys(name, source, topic): source
            for name, source in spec.config.inputs.items()
            for topic in topics_read(source, self._topics)
        }

    def _sample(self, tasks: Iterable[TaskSpec]) -> None:
        now = self._clock.monotonic()
        wanted = {
            keys: source
            for spec in tasks
            for keys, source in self._keys_of(spec).items()
            if source.key_function != "none"
        }
        self._sampled = {keys: known for keys, known in self._sampled.items() if keys in wanted}
        due = [keys for keys in wanted if keys not in self._sampled or now - self._sampled[keys][0] >= SAMPLE_SECONDS]
        for keys in due[:_SAMPLES_A_LOOK]:
            source = wanted[keys]
            brokers = self._clusters(source.cluster)
            try:
                problem = key_function_problem(keys.name, source, keys.full_topic, brokers, self._session)
                self._sampled[keys] = (now, problem)
            except Unavailable as error:
                log.warning("keys not sampled", topic=keys.full_topic, error=error.detail)


def _unreadable(spec: TaskSpec, begun: Topics, now: Topics) -> dict[str, str]:
    """By input, why a task cannot read on."""
    found: dict[str, str] = {}
    for name, why in _made_again(spec, begun, now):
        found.setdefault(name, why)
    for problem in topic_problems(spec.config, now):
        if _is_unreadable(problem):
            found.setdefault(problem.field.split(".")[1], problem.detail)
    return found


def _made_again(spec: TaskSpec, begun: Topics, now: Topics) -> Iterator[tuple[str, str]]:
    """Inputs with why: topics with another id than when the task started. Of an id that is unknown nothing is said."""
    for name, source in spec.config.inputs.items():
        for topic in topics_read(source, begun):
            ids = {each[topic].id for each in (begun, now) if topic in each}
            if len(ids - {None}) > 1:
                yield (
                    name,
                    f"inputs.{name}: the topic {topic} was deleted and made again. The job's offsets are those of the "
                    f"old topic, so it skips records, and its next start is refused. {CREATE_AGAIN}",
                )


def _is_unreadable(problem: Problem) -> bool:
    """Whether a task can read nothing of an input: of a pattern other topics may go on."""
    return problem.rule == TOPIC_EXISTS or (problem.rule == READABLE and not _is_topic_left_out(problem))


def _is_topic_left_out(problem: Problem) -> bool:
    """Whether a topic of a pattern is not read, as the source cannot read it."""
    return problem.field.endswith(".topic_pattern") and problem.rule != TOPIC_EXISTS


def _keys(name: str, source: Input, topic: str) -> _Keys:
    read_as = (source.format, source.value_schema, source.csv.model_dump_json(), source.protobuf.model_dump_json())
    return _Keys(name, topic, source.key_function, source.key_columns, source.key_groups, *read_as)
