"""Rules between the fields of one job. Each is a function from a `JobConfig` to the problems it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, pairwise

from penstock.config.avro_schema import avro_problem
from penstock.config.csv_rules import csv_output_problems, csv_problems
from penstock.config.declare import MARKS_SUFFIX
from penstock.config.event_time import wrong_format
from penstock.config.keygroups import key_group_count
from penstock.config.model import (
    DeltaOutput,
    FilesOutput,
    FunctionOutput,
    Input,
    JobConfig,
    KafkaOutput,
    PostgresOutput,
)
from penstock.config.output_times import timestamp_format_problems
from penstock.config.outputs import of_each_output
from penstock.config.paths import PLACEHOLDER
from penstock.config.problems import Problem
from penstock.config.protobuf_rules import protobuf_problems
from penstock.config.query_rules import query_problems
from penstock.config.side_rules import SIDE_RULES
from penstock.config.source_rules import starting_moment, starting_offsets_of_each_key_group, watermark
from penstock.config.spark_settings import ALLOWED_VALUES, is_allowed
from penstock.config.stream_rules import STREAM_RULES, streams_need_one_task
from penstock.config.topic_rules import topic_problems
from penstock.config.value_schema import SchemaError, column_names
from penstock.control.texts import likely

Rule = Callable[[JobConfig], Iterator[Problem]]
_OWN_COLUMNS = "_penstock_"
# As Kafka has it. With the cluster it is in the name of a file, of 255 characters at most.
_LONGEST_TOPIC = 249


def broken_rules(config: JobConfig) -> tuple[Problem, ...]:
    """All problems of a job whose fields have the right types and limits, in the order of `RULES`."""
    return tuple(problem for rule in RULES for problem in rule(config))


def _one_query(config: JobConfig) -> Iterator[Problem]:
    if (config.query.sql is None) == (config.query.python is None):
        yield Problem("query", "one_query", "query must have exactly one of sql and python")


def _python_has_a_package(config: JobConfig) -> Iterator[Problem]:
    what = "query" if config.query.python is not None else "output"
    if _has_python(config) and config.package.name == "builtin":
        yield Problem("package.name", "python_needs_package", f"a Python {what} needs the package that contains it")


def _secrets_are_for_python(config: JobConfig) -> Iterator[Problem]:
    if config.secrets and not _has_python(config):
        yield Problem("secrets", "secrets_need_python", "secrets are handed to a Python query; SQL has no use for them")


def _has_python(config: JobConfig) -> bool:
    return config.query.python is not None or any(
        isinstance(output, FunctionOutput) for output in config.outputs.values()
    )


def _max_task_count(config: JobConfig) -> Iterator[Problem]:
    count, limit = config.task_count, config.max_task_count
    if count > limit:
        yield Problem("task_count", "max_task_count", f"task_count {count} is above max_task_count {limit}")


def _enough_key_groups(config: JobConfig) -> Iterator[Problem]:
    count, key_groups = config.task_count, key_group_count(config)
    # For a stream with one key group, `streams_need_one_task` says what to do.
    if (config.inputs or key_groups > 1) and count > key_groups:
        detail = f"task_count {count} is above the {key_groups} key groups of the inputs: some tasks would read nothing"
        yield Problem("task_count", "key_groups", detail)


def _key_group_bounds(config: JobConfig) -> Iterator[Problem]:
    field, bounds = "key_group_bounds", config.key_group_bounds
    if bounds is None:
        return
    if any(after <= before for before, after in pairwise(bounds)):
        yield Problem(field, "ascending", f"{field} must ascend: each task reads at least one key group")
    key_groups = key_group_count(config)
    if (config.inputs or config.streams) and max(bounds) >= key_groups:
        detail = f"{field} must be below the {key_groups} key groups of the inputs: each task reads at least one"
        yield Problem(field, "key_groups", detail)


def _equal_key_groups(config: JobConfig) -> Iterator[Problem]:
    kind = "inputs" if config.inputs else "streams"
    sources = [] if config.inputs and config.streams else list(config.sources.items())
    for name, source in sources[1:]:
        first_name, first = sources[0]
        if source.key_groups != first.key_groups:
            field = f"{kind}.{name}.key_groups"
            detail = (
                f"{field} is {source.key_groups}, but {kind}.{first_name} has {first.key_groups}: "
                "a task reads the same key groups of every input"
            )
            yield Problem(field, "equal_key_groups", detail)


def _different_names(config: JobConfig) -> Iterator[Problem]:
    taken: set[str] = set()
    groups = {"inputs": [*config.inputs], "streams": [*config.streams], "tables": [*config.tables]}
    for group, name in ((group, name) for group, names in groups.items() for name in names):
        if name.lower() in taken:
            detail = f"{group}.{name}: another input, stream or table has this name (Spark ignores case)"
            yield Problem(f"{group}.{name}", "name_taken", detail)
        taken.add(name.lower())


def _table_paths(config: JobConfig) -> Iterator[Problem]:
    for name, table in config.tables.items():
        for argument in PLACEHOLDER.findall(table.path):
            if argument not in config.args:
                field = f"tables.{name}.path"
                told = f"{field} has ${{{argument}}}, but args has no {argument}; {likely(argument, config.args)}"
                yield Problem(field, "unknown_argument", told)


def _table_headers(config: JobConfig) -> Iterator[Problem]:
    for name, table in config.tables.items():
        field = f"tables.{name}"
        if table.header:
            continue
        if table.format != "csv":
            detail = f"{field}.header is of csv only; the format is {table.format}"
            yield Problem(f"{field}.header", "header_of_csv", detail)
        elif table.table_schema is None:
            detail = f"{field}.header is false: table_schema must name the columns"
            yield Problem(f"{field}.table_schema", "table_schema_required", detail)


def _inputs(config: JobConfig) -> Iterator[Problem]:
    for name, source in config.inputs.items():
        field = f"inputs.{name}"
        yield from starting_moment(field, source, "record")
        yield from starting_offsets_of_each_key_group(field, source)
        yield from watermark(field, source)
        yield from _event_time_format(f"{field}.event_time_format", source)
        if source.key_function != "none" and not source.key_columns:
            detail = f"{field}.key_function is {source.key_function}: key_columns must name the columns"
            yield Problem(f"{field}.key_columns", "key_columns_required", detail)
        yield from _schema_registry(f"{field}.schema_registry", source.schema_registry, source.format)
        schema_problems = tuple(_value_schema(field, source))
        yield from schema_problems or chain(_known_columns(field, source), _metadata_columns(field, source))
        yield from _balance(field, source)
        yield from _idle(field, source, config)


def _schema_registry(field: str, is_used: bool, value_format: str) -> Iterator[Problem]:
    if is_used and value_format not in ("avro", "protobuf"):
        detail = f"{field} is of avro and protobuf only; the format is {value_format}"
        yield Problem(field, "schema_registry_format", detail)


def _metadata_columns(field: str, source: Input) -> Iterator[Problem]:
    field = f"{field}.metadata_columns"
    if source.metadata_columns and source.format == "raw":
        yield Problem(field, "metadata_of_decoded", f"{field}: a raw input has all columns of Kafka already")
        return
    taken = set(column_names(source) or ())
    for kafka, name in source.metadata_columns.items():
        if name.lower() in taken:
            detail = f"{field}.{kafka} is {name}, and the input has such a column already (Spark ignores case)"
            yield Problem(f"{field}.{kafka}", "column_taken", detail)
        taken.add(name.lower())


def _known_columns(field: str, source: Input) -> Iterator[Problem]:
    names = column_names(source)
    wanted = [("key_columns", column) for column in source.key_columns]
    if source.event_time_column is not None:
        wanted.append(("event_time_column", source.event_time_column.strip("`")))
    if names is None:
        return
    for leaf, column in wanted:
        if column.lower() not in names:
            detail = f"{field}.{leaf} names {column}, which is not a column of the input; {likely(column, names)}"
            yield Problem(f"{field}.{leaf}", "unknown_column", detail)


def _event_time_format(field: str, source: Input) -> Iterator[Problem]:
    if source.event_time_format is None:
        return
    if source.format not in ("json", "csv"):
        detail = f"{field} is of json and csv only; the format is {source.format}"
        yield Problem(field, "event_time_format_of_text", detail)
    if source.event_time_column is None:
        yield Problem(field, "event_time_format_needs_column", f"{field}: event_time_column must name the column")
    wrong = wrong_format(source.event_time_format)
    if wrong is not None:
        yield Problem(field, "event_time_pattern", f"{field} is {source.event_time_format}: {wrong}")


def _value_schema(field: str, source: Input) -> Iterator[Problem]:
    field = f"{field}.value_schema"
    if source.format == "raw":
        if source.value_schema is not None:
            yield Problem(
                field, "value_schema_forbidden", f"{field}: a raw input takes no schema: it has Kafka's columns"
            )
    elif source.value_schema is None:
        yield Problem(field, "value_schema_required", f"{field}: an input of format {source.format} needs a schema")
    elif source.format == "avro" and (problem := avro_problem(field, source.value_schema)) is not None:
        yield problem
    else:
        yield from _readable_schema(field, source)


def _readable_schema(field: str, source: Input) -> Iterator[Problem]:
    try:
        names = column_names(source) or ()
    except SchemaError as error:
        detail = f"{field} must be Spark DDL such as `id BIGINT, at TIMESTAMP`: {error}"
        yield Problem(field, "value_schema_ddl", detail)
        return
    for name in sorted(names):
        if name.startswith(_OWN_COLUMNS):
            yield Problem(field, "reserved_column", f"{field}: no column may begin with {_OWN_COLUMNS}, as {name} does")


def _balance(field: str, source: Input) -> Iterator[Problem]:
    if source.balance_field is not None and source.format != "json":
        detail = f"{field}.balance_field is a field of a JSON value, but the format is {source.format}"
        yield Problem(f"{field}.balance_field", "balance_field_json", detail)
    if source.balance_field is not None and source.balance not in ("auto", "field"):
        detail = f"{field}.balance_field has no effect when balance is {source.balance}: set balance to field or auto"
        yield Problem(f"{field}.balance_field", "balance_field_unused", detail)
    if source.balance == "field":
        yield from _by_field(field, source)


def _by_field(field: str, source: Input) -> Iterator[Problem]:
    if source.format != "json":
        detail = (
            f"{field}.balance is field, which needs a JSON value; the format is {source.format}: use index or sample"
        )
        yield Problem(f"{field}.balance", "balance_needs_json", detail)
    elif source.balance_field is None and source.event_time_column is None:
        detail = f"{field}.balance is field: balance_field or event_time_column must name the field"
        yield Problem(f"{field}.balance_field", "balance_field_required", detail)


def _idle(field: str, source: Input, config: JobConfig) -> Iterator[Problem]:
    if source.idle_timeout_seconds is None:
        if any(other.idle_timeout_seconds is not None for other in config.inputs.values()):
            detail = f"{field} has no idle_timeout_seconds, but another input has: set it for all inputs"
            yield Problem(f"{field}.idle_timeout_seconds", "idle_timeout_of_all", detail)
    elif config.query.python is None and not _any_event_time(config):
        detail = f"{field}.idle_timeout_seconds: needs an event_time_column: there is no watermark without"
        yield Problem(f"{field}.idle_timeout_seconds", "idle_timeout_needs_event_time", detail)


def _any_event_time(config: JobConfig) -> bool:
    return any(source.event_time_column is not None for source in config.inputs.values())


def _dead_letters(config: JobConfig) -> Iterator[Problem]:
    topic = config.dead_letter_topic
    if topic is not None and any(source.reads(topic) for source in config.inputs.values()):
        detail = f"dead_letter_topic {topic} is also an input: the job would read its own malformed records for ever"
        yield Problem("dead_letter_topic", "dead_letters_not_read", detail)


def _foreign_outputs(config: JobConfig) -> Iterator[Problem]:
    """What Kafka, Postgres and Penstock keep their own records in is no output of a job."""
    output = config.output
    if isinstance(output, PostgresOutput):
        *schema, table = output.table.lower().split(".")
        if table.startswith(("pg_", "penstock_")) or (schema and schema[0].startswith(("pg_", "information_schema"))):
            detail = f"output.table: {output.table} is a table of Postgres or Penstock itself; choose another name"
            yield Problem("output.table", "reserved_table", detail)
    topics = {"dead_letter_topic": config.dead_letter_topic}
    if isinstance(output, KafkaOutput):
        topics["output.topic"] = output.topic
    for field, topic in topics.items():
        if topic is not None and (topic in (".", "..") or topic.startswith("__") or topic.endswith(MARKS_SUFFIX)):
            detail = f"{field}: {topic} is a topic of Kafka or Penstock itself; choose another name"
            yield Problem(field, "reserved_topic", detail)


def _output_mode(config: JobConfig) -> Iterator[Problem]:
    mode, output = config.output_mode, config.output
    if mode == "append":
        return
    match output:
        case FilesOutput():
            yield Problem("output_mode", "append_only", f"files can only be written in append mode, not in {mode} mode")
        case DeltaOutput() if mode == "complete":
            if output.upsert_columns:
                detail = "complete mode replaces the whole Delta table: use update mode, or leave out upsert_columns"
                yield Problem("output_mode", "append_or_update", detail)
        case DeltaOutput() | PostgresOutput() if not output.upsert_columns:
            detail = f"{mode} mode writes a row again when it changes: output.upsert_columns must name its key"
            yield Problem("output.upsert_columns", "upsert_columns_required", detail)


def _complete_needs_one_task(config: JobConfig) -> Iterator[Problem]:
    is_delta = any(isinstance(output, DeltaOutput) for output in config.outputs.values())
    if is_delta and config.output_mode == "complete" and config.task_count > 1:
        detail = "complete mode replaces the whole Delta table, so only one task can write it"
        yield Problem("task_count", "complete_needs_one_task", detail)


def _kafka_output(config: JobConfig) -> Iterator[Problem]:
    output = config.output
    if not isinstance(output, KafkaOutput):
        return
    yield from _schema_registry("output.schema_registry", output.schema_registry, output.value_format)
    if output.headers is not None and output.headers.lower() in map(str.lower, output.key_columns):
        detail = f"output.headers names {output.headers}, which is in key_columns: headers are no part of the key"
        yield Problem("output.headers", "headers_are_no_key", detail)


def _topic_lengths(config: JobConfig) -> Iterator[Problem]:
    topics = {f"inputs.{name}": source.full_topic for name, source in config.inputs.items() if source.topic is not None}
    if isinstance(config.output, KafkaOutput):
        topics["output"] = config.output.full_topic
    for field, topic in topics.items():
        if len(topic) > _LONGEST_TOPIC:
            detail = f"{field}.cluster: {topic} has {len(topic)} characters; {_LONGEST_TOPIC} is the most for a file"
            yield Problem(f"{field}.cluster", "topic_length", detail)


def _own_loop(config: JobConfig) -> Iterator[Problem]:
    """Loops by way of other jobs are found where all jobs are known: at the write."""
    output = config.output
    if not isinstance(output, KafkaOutput) or output.allow_loop:
        return
    for name, source in config.inputs.items():
        if source.reads(output.full_topic):
            detail = (
                f"output.topic is a topic of inputs.{name}: the job would read its own output again, for ever. "
                "Choose another topic, or set output.allow_loop"
            )
            yield Problem("output.topic", "loop", detail)


def _spark_settings(config: JobConfig) -> Iterator[Problem]:
    for setting, value in config.spark_settings.items():
        field = f"spark_settings.{setting}"
        if not is_allowed(setting):
            detail = (
                f"{field}: a job may not set this Spark setting; `penstock fields spark_settings` lists those that it "
                "may set"
            )
            yield Problem(field, "spark_setting_not_allowed", detail)
        elif not ALLOWED_VALUES[setting].accepts(value):
            detail = f"{field}: {value!r} is not allowed; allowed: {ALLOWED_VALUES[setting].text}"
            yield Problem(field, "spark_setting_value", detail)


RULES: tuple[Rule, ...] = (
    _one_query,
    _python_has_a_package,
    _secrets_are_for_python,
    _max_task_count,
    _enough_key_groups,
    _key_group_bounds,
    _equal_key_groups,
    _different_names,
    _table_paths,
    _table_headers,
    topic_problems,
    _inputs,
    csv_problems,
    of_each_output(csv_output_problems),
    of_each_output(timestamp_format_problems),
    of_each_output(protobuf_problems),
    *STREAM_RULES,
    _dead_letters,
    of_each_output(_foreign_outputs),
    of_each_output(_output_mode),
    _complete_needs_one_task,
    of_each_output(_own_loop),
    of_each_output(_topic_lengths),
    of_each_output(_kafka_output),
    *SIDE_RULES,
    _spark_settings,
    query_problems,
)
SEVERAL_TASKS: tuple[Rule, ...] = (_enough_key_groups, streams_need_one_task, _complete_needs_one_task)
"""Those of `RULES` that say how many tasks a job may have, without the limit that its owner sets."""
