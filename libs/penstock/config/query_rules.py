"""The rules for a SQL query: what it may be and read, and when its state allows more than one task.

Nothing can be seen of a Python query here, so none of these rules is kept for it: whoever writes one that keeps
state with several tasks must see to it that rows which meet have the same input key.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from penstock.config.colocation import Relation, StatefulStep
from penstock.config.dataflow import input_relation, read_dataflow
from penstock.config.model import Input, JobConfig
from penstock.config.problems import Problem
from penstock.config.sql import SQL_FIELD, argument_names, parse_query, sql_problem


class InputKeys(NamedTuple):
    """What the state of a query depends on in an input."""

    name: str
    key_function: str
    key_columns: tuple[str, ...]


class QueryFacts(NamedTuple):
    """What a query's text says, whatever the task count; shared by all jobs that have the same text and keys."""

    problems: tuple[Problem, ...] = ()
    arguments: frozenset[str] = frozenset()
    steps: tuple[StatefulStep, ...] = ()


def query_problems(config: JobConfig) -> Iterator[Problem]:
    """The problems of a job's SQL query; none for a Python query."""
    if config.query.sql is None:
        return
    facts = _facts(config.query.sql, config)
    yield from facts.problems
    for name in sorted(facts.arguments - config.args.keys()):
        yield Problem(f"args.{name}", "unknown_argument", f"{SQL_FIELD} has :{name}, but args has no {name}")
    if config.task_count > 1:
        yield from (_stateful_problem(step, config) for step in facts.steps if not step.colocated)
        keyed = {name for step in facts.steps for name in step.inputs}
        yield from (_kafka_key_problem(name, config.inputs[name]) for name in sorted(keyed) if _has_parts(config, name))


def _facts(sql: str, config: JobConfig) -> QueryFacts:
    inputs = tuple(InputKeys(name, source.key_function, source.key_columns) for name, source in config.inputs.items())
    try:
        return query_facts(sql, inputs, tuple(config.tables))
    except RecursionError:
        return QueryFacts((sql_problem("sql_too_deep", " is nested too deeply"),))


# The State Syncer checks every job that changed: a roll-out to many jobs of one text must not parse it each time.
@lru_cache(maxsize=1024)
def query_facts(sql: str, inputs: tuple[InputKeys, ...], tables: tuple[str, ...]) -> QueryFacts:
    """What the text of a query over these inputs and tables says.

    Raises RecursionError when it is nested too deeply.
    """
    query = parse_query(sql)
    if isinstance(query, Problem):
        return QueryFacts((query,))
    names = {name.lower(): Relation() for name in tables} | {
        source.name.lower(): input_relation(*source) for source in inputs
    }
    dataflow = read_dataflow(query, names)
    if not dataflow.problems and not dataflow.result.inputs:
        dataflow.problems.append(sql_problem("reads_no_input", " reads none of the job's inputs"))
    return QueryFacts(tuple(dataflow.problems), argument_names(query), tuple(dataflow.steps))


def _stateful_problem(step: StatefulStep, config: JobConfig) -> Problem:
    inputs = {name: config.inputs[name] for name in sorted(step.inputs)}
    meets = f"with equal ({', '.join(step.by)})" if step.by else "of all tasks"
    detail = (
        f"{step.operation} in query.sql brings rows {meets} together, but with task_count {config.task_count} they are "
        f"not sure to be in one task: {'; '.join(_keyed(name, source) for name, source in inputs.items())}. "
        f"{_remedy(step, inputs)}"
    )
    return Problem("task_count", "stateful_needs_keys", detail)


def _has_parts(config: JobConfig, name: str) -> bool:
    return config.inputs[name].key_function in ("kafka", "crc32") and len(config.inputs[name].key_columns) > 1


def _kafka_key_problem(name: str, source: Input) -> Problem:
    field = f"inputs.{name}.key_columns"
    detail = (
        f"{field} are ({', '.join(source.key_columns)}), but the bytes that {source.key_function} hashed are known of "
        "a single text or binary column only, so the query's state could not be moved between tasks: put a shuffle "
        "job before this one, or set task_count to 1"
    )
    return Problem(field, "kafka_key_of_one_column", detail)


def _keyed(name: str, source: Input) -> str:
    if source.key_function == "none":
        return f"inputs.{name} has key_function none"
    return f"inputs.{name} is keyed by ({', '.join(source.key_columns)}) with {source.key_function}"


def _remedy(step: StatefulStep, inputs: dict[str, Input]) -> str:
    if not step.by:
        return "No key can bring them together: set task_count to 1"
    columns = ", ".join(step.by)
    key_groups = max(source.key_groups for source in inputs.values())
    return (
        "Put a shuffle job before this one that selects the rows of each of these inputs into a Kafka output with "
        f"key_columns [{columns}] and key_groups {key_groups}, and read its topic here with key_function spark and the "
        "same key_columns; or set task_count to 1"
    )
