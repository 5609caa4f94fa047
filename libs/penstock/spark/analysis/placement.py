"""Whether rows that a query brings together are in one task, by the plan that Spark made of the query."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame

from penstock.config.model import JobConfig
from penstock.config.plan_dataflow import PlanFacts, input_columns, read_plan
from penstock.config.problems import Problem
from penstock.config.query_rules import plan_problems
from penstock.config.rules import SEVERAL_TASKS
from penstock.control.errors import BrokenTask

_MOST_KEPT = 1000
# What a query's plan and its keys depend on.
_DECIDING = ("package", "query", "args", "inputs", "tables", "spark_settings")


class Placements:
    """What was found of the plans of jobs, so that the tasks of a job ask once. May be used from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[str, tuple[Problem, ...]] = {}

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
        key = _key(config)
        found = self._found.get(key)
        if found is None:
            found = placement(frame, inputs, config)[0]
            with self._lock:
                self._found[key] = found
                if len(self._found) > _MOST_KEPT:
                    del self._found[next(iter(self._found))]
        return found


def placement(
    frame: DataFrame, inputs: Mapping[str, DataFrame], config: JobConfig
) -> tuple[tuple[Problem, ...], PlanFacts]:
    """The problems with a query over the frames of the job's inputs, and the facts of its plan."""
    columns = {name: input_columns(config.inputs[name], _types(each)) for name, each in inputs.items()}
    try:
        facts = read_plan(_plan(frame), columns)
    except RecursionError:
        return (_too_deep(),) if config.task_count > 1 else (), PlanFacts()
    return tuple(plan_problems(config, facts, columns)), facts


def _types(frame: DataFrame) -> Sequence[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in frame.schema.fields]


def _plan(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().analyzed().toJSON())


def _too_deep() -> Problem:
    detail = "the query's plan is nested too deeply to see where its rows are: set task_count to 1"
    return Problem("task_count", "plan_too_deep", detail)


def _key(config: JobConfig) -> str:
    """The texts of problems name the number of tasks."""
    text = config.model_dump_json(include=set(_DECIDING)) + str(config.task_count)
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
