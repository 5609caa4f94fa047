"""Whether rows that a query brings together are in one task, by the plan that Spark made of the query."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame

from penstock.config.model import JobConfig
from penstock.config.plan_dataflow import InputColumns, PlanFacts, input_columns, read_plan
from penstock.config.plan_nodes import parse_plan
from penstock.config.plan_time import goes_by_event_time
from penstock.config.problems import Problem
from penstock.config.query_rules import plan_problems
from penstock.config.rules import SEVERAL_TASKS
from penstock.control.errors import BrokenTask

_MOST_KEPT = 300
_WAIT_SECONDS = 1.0
# What a query's plan and its keys depend on.
_DECIDING = ("package", "query", "args", "inputs", "streams", "tables", "spark_settings")


@dataclass
class _Plan:
    """What the rules need of a query's plan, whatever the number of tasks.

    `columns`: None until the plan was read. `facts`: None until then, and after it when the plan is nested too deep.
    `lock`: held while the plan is read.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    columns: Mapping[str, InputColumns] | None = None
    facts: PlanFacts | None = None

    def read(self, frame: DataFrame, inputs: Mapping[str, DataFrame], config: JobConfig) -> None:
        """Asks Spark for the plan of a query over the frames of the job's inputs."""
        columns = {name: _columns(name, each, config) for name, each in inputs.items()}
        with suppress(RecursionError):
            self.facts = read_plan(_plan(frame), columns)
        self.columns = columns

    def problems(self, config: JobConfig) -> tuple[Problem, ...]:
        """The problems with as many tasks as `config` has. After `read`."""
        if self.facts is None or self.columns is None:
            return (_too_deep(),) if config.task_count > 1 else ()
        return tuple(plan_problems(config, self.facts, self.columns))


class Placements:
    """The plans of jobs on this host: the first task of a job reads the plan, the others use what it found. May be used
    from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plans: dict[str, _Plan] = {}

    def require(self, frame: DataFrame, inputs: Mapping[str, DataFrame], config: JobConfig) -> None:
        """Raises BrokenTask when the query of a job with several tasks brings rows together that may be in others."""
        if config.task_count == 1:
            return
        found = self._problems(frame, inputs, config)
        if found:
            raise BrokenTask(f"{found[0].field}: {found[0].detail}")

    def may_split(self, frame: DataFrame, inputs: Mapping[str, DataFrame], config: JobConfig) -> bool:
        """Whether several tasks may run the job, whatever `task_count` and its limit are now."""
        several = config if config.task_count > 1 else config.model_copy(update={"task_count": 2})
        if any(problem for rule in SEVERAL_TASKS for problem in rule(several)):
            return False
        return not self._problems(frame, inputs, several)

    def _problems(self, frame: DataFrame, inputs: Mapping[str, DataFrame], config: JobConfig) -> tuple[Problem, ...]:
        plan = self._kept(_key(frame, config))
        # Tasks of a job that start together wait for the first one's answer, but not for long: nothing interrupts them.
        if not plan.lock.acquire(timeout=_WAIT_SECONDS):
            return placement(frame, inputs, config)[0]
        try:
            if plan.columns is None:
                plan.read(frame, inputs, config)
        finally:
            plan.lock.release()
        return plan.problems(config)

    def _kept(self, key: str) -> _Plan:
        with self._lock:
            plan = self._plans.setdefault(key, _Plan())
            if len(self._plans) > _MOST_KEPT:
                del self._plans[next(iter(self._plans))]
            return plan


def placement(
    frame: DataFrame, inputs: Mapping[str, DataFrame], config: JobConfig
) -> tuple[tuple[Problem, ...], PlanFacts]:
    """The problems with a query over the frames of the job's inputs, and the facts of its plan."""
    plan = _Plan()
    plan.read(frame, inputs, config)
    return plan.problems(config), plan.facts or PlanFacts()


def goes_by_time(frame: DataFrame, config: JobConfig) -> bool:
    """Whether a query over the inputs of a job has windows or other operators that go by event time; true where its
    plan is nested too deep to see."""
    columns = [source.event_time_column for source in config.inputs.values() if source.event_time_column is not None]
    try:
        return goes_by_event_time(parse_plan(_plan(frame)), columns)
    except RecursionError:
        return True


def _columns(name: str, frame: DataFrame, config: JobConfig) -> InputColumns:
    return input_columns(config.sources[name], _types(frame))


def _types(frame: DataFrame) -> Sequence[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in frame.schema.fields]


def _plan(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().analyzed().toJSON())


def _too_deep() -> Problem:
    detail = "the query's plan is nested too deeply to see where its rows are: set task_count to 1"
    return Problem("task_count", "plan_too_deep", detail)


def _key(frame: DataFrame, config: JobConfig) -> str:
    """By the types of all that the query reads too: those of a table are not in the configuration. What else a package
    reads may have changed since: such a plan, and one with tables, is read for each number of tasks."""
    text = config.model_dump_json(include=set(_DECIDING)) + _types_read(frame)
    if config.tables or config.query.python is not None:
        text += str(config.task_count)
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def _types_read(frame: DataFrame) -> str:
    jvm: Any = frame.sparkSession._jvm
    return str(jvm.io.penstock.spark42.TypesRead.of(frame._jdf))
