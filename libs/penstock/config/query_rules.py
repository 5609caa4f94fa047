"""The rules for a query: what SQL may be and read, and when a query's state allows more than one task.

Only the text of SQL is seen here, without types. Spark's analysis of SQL and Python queries gives steps, too
(`penstock.config.plan_dataflow`): a plan, a write and each start of a task apply `placement_problems` to them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from penstock.config.colocation import OTHER_STREAM, Relation, StatefulStep
from penstock.config.dataflow import input_relation, read_dataflow
from penstock.config.model import Input, JobConfig
from penstock.config.plan_dataflow import InputColumns, PlanFacts
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
    yield from placement_problems(config, facts.steps)


def placement_problems(
    config: JobConfig, steps: Sequence[StatefulStep], types: Mapping[str, Mapping[str, str]] | None = None
) -> Iterator[Problem]:
    """Why the rows that the steps of a job's query bring together may be in several tasks; none for one task.

    `types`: by input, Spark's types of its columns by their lower case names, where Spark has analysed the query.
    """
    if config.task_count == 1:
        return
    steps = [replace(step, inputs=step.inputs & config.inputs.keys()) for step in steps]
    yield from (_stateful_problem(step, config, types or {}) for step in steps if step.inputs and not step.colocated)
    keyed = {name for step in steps for name in step.inputs}
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


def plan_problems(config: JobConfig, facts: PlanFacts, inputs: Mapping[str, InputColumns]) -> Iterator[Problem]:
    """`placement_problems` of the plan that Spark made of the job's query."""
    if config.task_count > 1 and OTHER_STREAM in facts.result.inputs:
        yield _other_stream(config)
    types = {name: {column.lower(): kind for column, kind in found.columns} for name, found in inputs.items()}
    yield from placement_problems(config, facts.steps, types)


def _other_stream(config: JobConfig) -> Problem:
    detail = (
        f"the query reads a stream that is none of the job's inputs, and each of the {config.task_count} tasks would "
        "read all of it: make it an input, or set task_count to 1"
    )
    return Problem("task_count", "reads_other_stream", detail)


def _stateful_problem(step: StatefulStep, config: JobConfig, types: Mapping[str, Mapping[str, str]]) -> Problem:
    inputs = {name: config.inputs[name] for name in sorted(step.inputs)}
    meets = f"with equal ({', '.join(step.by)})" if step.by else "of all tasks"
    query = SQL_FIELD if config.query.sql is not None else "query.python"
    keys = "; ".join(_keyed(name, source, types.get(name, {})) for name, source in inputs.items())
    detail = (
        f"{step.operation} in {query} brings rows {meets} together, but with task_count {config.task_count} they are "
        f"not sure to be in one task: {keys}. {_remedy(step, inputs)}"
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


def _keyed(name: str, source: Input, types: Mapping[str, str]) -> str:
    if source.key_function == "none":
        return f"inputs.{name} has key_function none"
    columns = (f"{column} {types.get(column.lower(), '')}".strip() for column in source.key_columns)
    return f"inputs.{name} is keyed by ({', '.join(columns)}) with {source.key_function}"


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
