"""The rules for a query: what SQL may be and read, and when a query's state allows more than one task.

`query_problems` sees the text of SQL, without Spark: it keeps out what Spark would run, such as foreign code and files
that the job does not name. `plan_problems` sees the plan that Spark made of a SQL or Python query. Plans and writes
apply it where a host can be asked; `initialize_sink` before tasks start or stop; each start of a task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from penstock.config.colocation import OTHER_STREAM, StatefulStep
from penstock.config.model import Input, JobConfig
from penstock.config.plan_dataflow import InputColumns, PlanFacts
from penstock.config.problems import Problem
from penstock.config.sql import SQL_FIELD, argument_names, parse_query, sql_problem
from penstock.config.sql_names import name_problems
from penstock.config.stream import Stream
from penstock.control.texts import Guesses

_WINDOWS = ("window", "session_window")
"""The columns that Spark makes of `window(...)` and `session_window(...)`."""


class QueryFacts(NamedTuple):
    """What a query's text says; shared by all jobs that have the same text and names."""

    problems: tuple[Problem, ...] = ()
    arguments: frozenset[str] = frozenset()


def query_problems(config: JobConfig) -> Iterator[Problem]:
    """The problems of a job's SQL query; none for a Python query."""
    if config.query.sql is None:
        return
    facts = _facts(config.query.sql, config)
    yield from facts.problems
    guesses = Guesses()
    for name in sorted(facts.arguments - config.args.keys()):
        told = f"{SQL_FIELD} has :{name}, but args has no {name}; {guesses.likely(name, config.args)}"
        yield Problem(f"args.{name}", "unknown_argument", told)


def _facts(sql: str, config: JobConfig) -> QueryFacts:
    names = frozenset(name.lower() for name in (*config.inputs, *config.streams, *config.tables))
    try:
        return query_facts(sql, names)
    except RecursionError:
        return QueryFacts((sql_problem("sql_too_deep", " is nested too deeply"),))


# The State Syncer checks every job that changed: a roll-out to many jobs of one text must not parse it each time.
@lru_cache(maxsize=1024)
def query_facts(sql: str, names: frozenset[str]) -> QueryFacts:
    """What the text of a query over inputs and tables of these names (lower case) says.

    Raises RecursionError when it is nested too deeply.
    """
    query = parse_query(sql)
    if isinstance(query, Problem):
        return QueryFacts((query,))
    return QueryFacts(tuple(name_problems(query, names)), argument_names(query))


def plan_problems(config: JobConfig, facts: PlanFacts, inputs: Mapping[str, InputColumns]) -> Iterator[Problem]:
    """Why rows that the job's query brings together may be in several tasks; none for one task.

    `inputs`: by name, as Spark reads them.
    """
    if config.task_count == 1:
        return
    if OTHER_STREAM in facts.result.inputs:
        yield _other_stream(config)
    steps = [replace(step, inputs=step.inputs & config.sources.keys()) for step in facts.steps]
    types = {name: {column.lower(): kind for column, kind in found.columns} for name, found in inputs.items()}
    yield from (_stateful_problem(step, config, types) for step in steps if step.inputs and not step.colocated)
    yield from (_begins_full(step, config) for step in steps if step.inputs and step.begins_full)
    keyed = {name for step in steps for name in step.inputs}
    yield from (_kafka_key_problem(name, config.inputs[name]) for name in sorted(keyed) if _has_parts(config, name))


def _other_stream(config: JobConfig) -> Problem:
    detail = (
        f"the query reads a stream that is none of the job's inputs, and each of the {config.task_count} tasks would "
        "read all of it: make it an input, or set task_count to 1"
    )
    return Problem("task_count", "reads_other_stream", detail)


def _begins_full(step: StatefulStep, config: JobConfig) -> Problem:
    detail = (
        f"{step.operation} in {_query(config)} begins with an initial state, and each of the {config.task_count} tasks "
        "would take all of it, also for keys of the others: send its rows through an input, or set task_count to 1"
    )
    return Problem("task_count", "initial_state_of_one_task", detail)


def _query(config: JobConfig) -> str:
    return SQL_FIELD if config.query.sql is not None else "query.python"


def _stateful_problem(step: StatefulStep, config: JobConfig, types: Mapping[str, Mapping[str, str]]) -> Problem:
    inputs = {name: config.sources[name] for name in sorted(step.inputs)}
    meets = f"with equal ({', '.join(step.by)})" if step.by else "of all tasks"
    keys = "; ".join(_keyed(name, source, types.get(name, {})) for name, source in inputs.items())
    detail = (
        f"{step.operation} in {_query(config)} brings rows {meets} together, but with task_count {config.task_count} "
        f"they are not sure to be in one task: {keys}. {_remedy(step, inputs, types)}"
    )
    return Problem("task_count", "stateful_needs_keys", detail)


def _has_parts(config: JobConfig, name: str) -> bool:
    source = config.sources[name]
    return source.key_function in ("kafka", "crc32") and len(source.key_columns) > 1


def _kafka_key_problem(name: str, source: Input) -> Problem:
    field = f"inputs.{name}.key_columns"
    detail = (
        f"{field} are ({', '.join(source.key_columns)}): with key_function {source.key_function} a job with state in "
        "several tasks needs exactly one key column, of type STRING or BINARY. Put a shuffle job before this one, or "
        "set task_count to 1"
    )
    return Problem(field, "kafka_key_of_one_column", detail)


def _keyed(name: str, source: Input | Stream, types: Mapping[str, str]) -> str:
    columns = ", ".join(f"{column} {types.get(column.lower(), '')}".strip() for column in source.key_columns)
    if isinstance(source, Stream):
        return f"streams.{name} has " + (f"key_columns ({columns})" if columns else "no key_columns")
    if source.key_function == "none":
        return f"inputs.{name} has key_function none"
    return f"inputs.{name} is keyed by ({columns}) with {source.key_function}"


def _possible_keys(by: Sequence[str], known: Set[str]) -> list[str]:
    """Those of the columns that a job before this one can write: columns of the inputs, else what the query makes.

    Fewer columns bring the same rows together, and more. An event-time window is made in this job.
    """
    made = [column for column in by if column.lower() in known or column.lower() not in _WINDOWS]
    return [column for column in made if column.lower() in known] or made


def _remedy(step: StatefulStep, inputs: Mapping[str, Input | Stream], types: Mapping[str, Mapping[str, str]]) -> str:
    by = _possible_keys(step.by, {column for name in inputs for column in types.get(name, {})})
    if not by:
        return "No key can bring them together: set task_count to 1"
    columns = ", ".join(by)
    topics = {name: source for name, source in inputs.items() if isinstance(source, Input)}
    if len(topics) < len(inputs):
        return (
            f"Create a job whose streams, each of these, have key_columns [{columns}] or fewer of them; or set "
            "task_count to 1"
        )
    key_groups = max(source.key_groups for source in topics.values())
    declared = "; ".join(_declaration(name, own) for name, own in _undeclared(by, topics, types))
    shuffled = " and ".join(
        f"inputs.{name}.key_function to spark and inputs.{name}.key_columns to [{columns}]" for name in topics
    )
    return (
        f"{declared + '. Else put' if declared else 'Put'} a shuffle job before this one that selects the rows of each "
        f"of these inputs into a Kafka output with key_columns [{columns}] and key_groups {key_groups}{_timed(topics)},"
        f" read its topic here, and set {shuffled}; or set task_count to 1"
    )


def _timed(inputs: Mapping[str, Input]) -> str:
    """What makes the watermark of the inputs, where they have one, wait for the tasks of a job before them."""
    has_watermark = any(source.watermark_delay is not None for source in inputs.values())
    return ", give its inputs the event_time_column and watermark_delay of these" if has_watermark else ""


def _undeclared(
    by: Sequence[str], inputs: Mapping[str, Input], types: Mapping[str, Mapping[str, str]]
) -> Iterator[tuple[str, list[str]]]:
    """The inputs whose job does not say how they are keyed, each with those of the columns that it has."""
    for name, source in inputs.items():
        own = [column for column in by if column.lower() in types.get(name, {})]
        if source.key_function == "none" and own:
            yield name, own


def _declaration(name: str, columns: Sequence[str]) -> str:
    listed = ", ".join(columns)
    which, key = (listed, f"[{listed}]") if len(columns) == 1 else (f"some of ({listed})", "these")
    return (
        f"If the producer of inputs.{name} chooses the partition by {which}, set inputs.{name}.key_columns to {key} "
        f"and inputs.{name}.key_function to spark, kafka (Java producers) or crc32 (librdkafka: Python, C, Go)"
    )
