"""`JobConfig`: all that Penstock knows of a job, as a frozen, typed model.

Every leaf declares once its type, unit, change kind, the layers that may set it (`declare`) and, as the docstring below
it, its documentation. The field table (`penstock.config.tree`), validation, classification, API docs and CLI help are
drawn from these declarations.
"""

from __future__ import annotations

import operator
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from penstock.config.csv_options import CsvFiles, CsvOutput, CsvValue, is_default
from penstock.config.declare import DECLARED_BY_USER, OF_THE_PACKAGE, DeclaredModel, Identifier, Name, Topic, declare
from penstock.config.declare import Carried as Carried
from penstock.config.declare import ChangeKind as ChangeKind
from penstock.config.declare import Model as Model
from penstock.config.kafka_input import MOST_OF_A_SCHEMA
from penstock.config.kafka_input import Input as Input
from penstock.config.protobuf_options import ProtobufOutput
from penstock.config.resources import Resources as Resources
from penstock.config.resources import Slo as Slo
from penstock.config.spark_settings import ALLOWED_TEXT
from penstock.config.stream import Stream
from penstock.config.topics import full_topic

NONE, LIVE, RESTART, RESCALE, FORBIDDEN = ChangeKind
PACKAGE_VERSION = r"^[A-Za-z0-9][A-Za-z0-9.+!_-]{0,99}$"
FUNCTION = r"^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*$"
ShortText = Annotated[str, Field(max_length=1000)]
Bound = Annotated[int, Field(ge=1, le=9_999)]
ArgumentText = Annotated[str, Field(max_length=100_000)]
Expression = Annotated[str, Field(min_length=1, max_length=10_000)]


def _is_json(value: object) -> bool:
    """For a field that is left out where it has its default: the release before does not know it."""
    return value == "json"


def _is_own(cluster: object) -> bool:
    """The same of a cluster."""
    return cluster is None


def _is_unset(value: object) -> bool:
    """The same of what may be left out."""
    return value is None


class DesiredState(StrEnum):
    """Whether the job's tasks should exist."""

    RUNNING = "running"
    STOPPED = "stopped"


class Table(DeclaredModel):
    """A table to join with, checked at the start of each task and read by each batch."""

    path: str = Field(..., min_length=1, max_length=4096, **declare(RESTART, DECLARED_BY_USER))
    """Hadoop path of the table: a file, or a folder with files of one format. It must be below one of the cell's
    PENSTOCK_PATH_ROOTS. `${name}` is replaced by an argument."""
    format: Literal["parquet", "csv", "json", "delta"] = Field("parquet", **declare(RESTART, DECLARED_BY_USER))
    """File format. A file of json has an object in each line."""
    table_schema: str | None = Field(None, min_length=1, max_length=100_000, **declare(RESTART, DECLARED_BY_USER))
    """Spark DDL of the table. Default: as the files have it. Not of delta, whose log has it."""
    header: bool = Field(True, **declare(RESTART, DECLARED_BY_USER))
    """Of csv: the first line of each file names the columns, in the order of table_schema. With `false` it is a row,
    and table_schema must name the columns."""
    csv: CsvFiles = Field(default_factory=CsvFiles, exclude_if=is_default)
    malformed: Literal["fail", "null"] = Field("fail", **declare(RESTART, DECLARED_BY_USER))
    """What becomes of a line of csv or json that does not fit the columns: the task does not start (`fail`), or the
    query gets what could be read and null for the rest (the text `"null"`, with the quotes)."""
    # Left out where it is not set: the release before does not know it.
    refresh_seconds: float | None = Field(
        None,
        ge=0,
        le=604_800,
        exclude_if=lambda seconds: seconds is None,
        **declare(RESTART, DECLARED_BY_USER, unit="seconds"),
    )
    """How long a task may go on with a version of the table before it looks for a newer one, between two batches; 0:
    before each batch. A version of other formats than delta is a list of files. Default: 0 of delta; of other formats a
    task looks at its start only."""


class KafkaOutput(DeclaredModel):
    """A topic of JSON, CSV, Avro or Protobuf records."""

    type: Literal["kafka"] = Field("kafka", **declare(FORBIDDEN, DECLARED_BY_USER))
    """Kind of output."""
    topic: Topic = Field(..., **declare(RESTART, DECLARED_BY_USER))
    """Topic to write to."""
    cluster: Name | None = Field(None, exclude_if=_is_own, **declare(RESCALE, DECLARED_BY_USER))
    """The Kafka cluster of the topic: a name in the setting PENSTOCK_KAFKA_CLUSTERS of the containers. Default: the
    cell's own. A change ends the series in the cluster before, so that no row is in both, unless that cluster is
    declared `gone`: then both may have the last batch."""
    key_groups: int | None = Field(None, ge=1, le=10_000, **declare(FORBIDDEN, DECLARED_BY_USER, unit="key groups"))
    """Number of partitions of the topic. A row goes to partition pmod(hash(key_columns), n), by Spark's hash."""
    key_columns: tuple[Identifier, ...] = Field((), max_length=32, **declare(FORBIDDEN, DECLARED_BY_USER))
    """Columns that form the record key and decide the partition."""
    value_format: Literal["json", "csv", "avro", "protobuf"] = Field(
        "json", exclude_if=_is_json, **declare(RESTART, DECLARED_BY_USER)
    )
    """Encoding of the record value: `csv` has the columns in their order, and no header. `avro` by a schema that the
    query's columns give. Columns that may be null have the default null in it. `protobuf` by the message
    `protobuf.message` of `value_schema`: each column is its field with this name."""
    csv: CsvValue = Field(default_factory=CsvValue, exclude_if=is_default)
    timestamp_format: str | None = Field(
        None, min_length=1, max_length=100, exclude_if=_is_unset, **declare(RESCALE, DECLARED_BY_USER)
    )
    """Of json and csv: how times are written, also those within structs and arrays: `epoch_seconds`, `epoch_millis`
    (whole numbers since 1970; what is finer is cut off), or a datetime pattern of Spark such as `dd/MM/yyyy HH:mm:ss`,
    in the job's time zone (UTC). Of a topic: no such time may be in a key. Of files: a change needs another `path`.
    Default: ISO 8601 with microseconds and offset."""
    value_schema: str | None = Field(
        None, min_length=1, max_length=MOST_OF_A_SCHEMA, exclude_if=_is_unset, **declare(RESTART, DECLARED_BY_USER)
    )
    """Of protobuf: the base64 of a descriptor set (`penstock descriptor`)."""
    protobuf: ProtobufOutput = Field(default_factory=ProtobufOutput, exclude_if=is_default)
    headers: Identifier | None = Field(None, exclude_if=_is_unset, **declare(RESTART, DECLARED_BY_USER))
    """Column with the headers of the record, which is then no part of its value: ARRAY<STRUCT<key: STRING, value:
    BINARY>>, as metadata_columns of an input gives them, or MAP<STRING, BINARY>; values may be STRING, too. Null: the
    record has none."""
    schema_registry: bool = Field(False, exclude_if=operator.not_, **declare(RESTART, DECLARED_BY_USER))
    """Of avro and protobuf: the schema is registered for the subject `<topic>-value` in the cell's schema registry
    (PENSTOCK_SCHEMA_REGISTRY_URL) when a task starts, and each record begins with a zero byte and its id (4 bytes), of
    protobuf also with the place of its message in the schema's file."""
    delivery: Literal["exactly_once", "at_least_once"] = Field("exactly_once", **declare(RESTART, DECLARED_BY_USER))
    """`exactly_once` writes in Kafka transactions, for readers with read_committed. `at_least_once` is Spark's own
    sink, which writes the rows of a repeated batch twice."""
    allow_loop: bool = Field(False, **declare(NONE, DECLARED_BY_USER))
    """Accept that records come back to an input of this job, by way of other jobs or at once. Otherwise such a loop is
    refused, since its records never end."""
    # Left out where it is false: the release before does not know it. Its change kind is that of tables, which need it.
    allow_other_writers: bool = Field(False, exclude_if=operator.not_, **declare(RESTART, DECLARED_BY_USER))
    """Accept that other jobs make other rows of the same topic or stream for this topic; set it in all of them.
    Otherwise the later one is refused where jobs read the topic. Jobs that make the same rows are refused all the
    same."""

    @property
    def full_topic(self) -> str:
        """The topic with its cluster."""
        return full_topic(self.topic, self.cluster)


class DeltaOutput(DeclaredModel):
    """A Delta table, appended to or merged into by key, exactly once."""

    type: Literal["delta"] = Field("delta", **declare(FORBIDDEN, DECLARED_BY_USER))
    """Kind of output."""
    path: str = Field(..., min_length=1, max_length=4096, **declare(RESCALE, DECLARED_BY_USER))
    """Hadoop path of the Delta table. A table that another job made is refused, unless allow_other_writers is true."""
    partition_columns: tuple[Identifier, ...] = Field((), max_length=32, **declare(FORBIDDEN, DECLARED_BY_USER))
    """Columns that partition the table. Where they are among upsert_columns, a batch reads its own partitions only."""
    # Left out where it is empty: the release before does not know it.
    upsert_columns: tuple[Identifier, ...] = Field(
        (), max_length=32, exclude_if=operator.not_, **declare(RESTART, DECLARED_BY_USER)
    )
    """Columns of a unique key: a row replaces the row with the same key (MERGE). Default: rows are appended."""
    allow_other_writers: bool = Field(False, **declare(RESTART, DECLARED_BY_USER))
    """Accept that this job writes to a table of another job. With two jobs that append, each is exactly once and
    readers get the rows of both. Jobs with upsert_columns may replace rows of each other; all of them need this. With a
    job in output_mode complete, each of its batches deletes the rows of the other."""
    # Left out where it is false: the release before does not know it.
    allow_loop: bool = Field(False, exclude_if=operator.not_, **declare(NONE, DECLARED_BY_USER))
    """Accept that rows come back to a stream of this job, by way of other jobs or at once. Otherwise such a loop is
    refused, since its rows never end. A table that a job only looks rows up in makes no loop."""


class FilesOutput(DeclaredModel):
    """Files below `path`, one sub-folder a task. Exactly once for readers of the files that Spark's own log names."""

    type: Literal["files"] = Field("files", **declare(FORBIDDEN, DECLARED_BY_USER))
    """Kind of output."""
    path: str = Field(..., min_length=1, max_length=4096, **declare(RESCALE, DECLARED_BY_USER))
    """Hadoop path of a folder for this job alone: one with files of another job, or of a deleted one, is refused. Each
    task writes to its own folder in it. Rows are exactly once in the committed files only: `penstock jobs files JOB`
    lists them. Who reads the whole folder also finds rows of repeated batches, so twice: read that list, or write to
    delta."""
    format: Literal["parquet", "json", "csv"] = Field("parquet", **declare(RESCALE, DECLARED_BY_USER))
    """File format. A change needs another `path`, since a folder takes one format."""
    header: bool = Field(True, exclude_if=bool, **declare(RESCALE, DECLARED_BY_USER))
    """Of csv: the first line of each file names the columns. A change needs another `path`."""
    csv: CsvOutput = Field(default_factory=CsvOutput, exclude_if=is_default)
    timestamp_format: str | None = Field(
        None, min_length=1, max_length=100, exclude_if=_is_unset, **declare(RESCALE, DECLARED_BY_USER)
    )
    """Of json and csv: how times are written, also those within structs and arrays: `epoch_seconds`, `epoch_millis`
    (whole numbers since 1970; what is finer is cut off), or a datetime pattern of Spark such as `dd/MM/yyyy HH:mm:ss`,
    in the job's time zone (UTC). Of a topic: no such time may be in a key. Of files: a change needs another `path`.
    Default: ISO 8601 with microseconds and offset."""
    # Left out where it is false: the release before does not know it.
    allow_loop: bool = Field(False, exclude_if=operator.not_, **declare(NONE, DECLARED_BY_USER))
    """Accept that rows come back to a stream of this job, by way of other jobs or at once. Otherwise such a loop is
    refused, since its rows never end. A table that a job only looks rows up in makes no loop."""


class PostgresOutput(DeclaredModel):
    """A Postgres table; rows and batch marker go into one transaction."""

    type: Literal["postgres"] = Field("postgres", **declare(FORBIDDEN, DECLARED_BY_USER))
    """Kind of output."""
    connection: Name = Field("default", **declare(RESCALE, DECLARED_BY_USER))
    """Name of a connection in the setting PENSTOCK_CONNECTIONS of the containers, so that no secret is in the job."""
    table: str = Field(
        ...,
        pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?$",
        **declare(RESTART, DECLARED_BY_USER),
    )
    """Table to write to; it is created with the columns of the query when it is missing. One of another job is
    refused, unless allow_other_writers is true."""
    upsert_columns: tuple[Identifier, ...] = Field((), max_length=32, **declare(RESTART, DECLARED_BY_USER))
    """Columns of a unique key: a row replaces the row with the same key. Default: rows are appended."""
    allow_other_writers: bool = Field(False, **declare(RESTART, DECLARED_BY_USER))
    """Accept that this job writes to a table of another job. With two jobs that append, each is exactly once and
    readers get the rows of both. Jobs with upsert_columns may replace rows of each other; all of them need this."""


class FunctionOutput(DeclaredModel):
    """A function of the package that gets the rows of each batch, at least once."""

    type: Literal["foreach_batch"] = Field("foreach_batch", **declare(FORBIDDEN, DECLARED_BY_USER))
    """Kind of output."""
    python: str = Field(..., max_length=500, pattern=FUNCTION, **declare(RESTART, DECLARED_BY_USER))
    """`module:function` in the package; called as `function(frame, batch_id)` for each batch, and again for the last
    one after a crash. It also gets `series=`, `args=` and `secrets=` when it has parameters of these names: a series
    and a batch id together name the same batch for ever. Its rows are the same again, unless the job was changed in
    between."""


Output = Annotated[
    KafkaOutput | DeltaOutput | FilesOutput | PostgresOutput | FunctionOutput, Field(discriminator="type")
]


class SideOutput(DeclaredModel):
    """A further place for the rows of the job's result. Adding or removing one makes a new generation."""

    where: str | None = Field(None, min_length=1, max_length=10_000, **declare(RESTART, DECLARED_BY_USER))
    """SQL condition over the columns of the query's result: the rows for which it is true go there. Default: all. It
    looks at one row. It must be deterministic: no now(), no rand(). It may have no `:name`."""
    columns: tuple[Expression, ...] = Field((), max_length=1000, **declare(RESTART, DECLARED_BY_USER))
    """SQL expressions over the columns of the query's result, as in a SELECT list: `["user", "amount * 2 AS doubled"]`.
    Default: all columns. Each looks at one row. It must be deterministic: no now(), no rand(). It may have no
    `:name`."""
    output: Annotated[KafkaOutput | DeltaOutput | PostgresOutput | FunctionOutput, Field(discriminator="type")]


class Package(DeclaredModel):
    """The code of a job. `builtin` has none: its jobs are SQL only."""

    name: Name = Field("builtin", **declare(RESTART, OF_THE_PACKAGE))
    """Name of the package with the job's Python code; `builtin` for a job that has only SQL."""
    version: str = Field("0", pattern=PACKAGE_VERSION, **declare(RESTART, OF_THE_PACKAGE))
    """Version of the package: up to 100 letters, digits and `.+!_-`, the first one a letter or digit."""
    digest: str | None = Field(None, pattern=r"^sha256:[0-9a-f]{64}$", **declare(RESTART, OF_THE_PACKAGE))
    """SHA-256 of the package file as `sha256:<hex>`; checked before the code runs."""


class Query(DeclaredModel):
    """What a task computes: exactly one of `sql` and `python`."""

    sql: str | None = Field(None, min_length=1, max_length=100_000, **declare(RESTART, OF_THE_PACKAGE))
    """One SELECT in Spark SQL. Each input and each table is a view with its own name."""
    python: str | None = Field(None, max_length=500, pattern=FUNCTION, **declare(RESTART, OF_THE_PACKAGE))
    """`module:function` in the package; called as `function(session, inputs, args)`, and with `secrets=` when it has a
    parameter of this name. Returns a DataFrame."""


class JobConfig(DeclaredModel):
    """The merged configuration of a job."""

    package: Package = Field(default_factory=Package)
    query: Query
    args: dict[Identifier, ArgumentText | int | float | bool] = Field(
        default_factory=dict, max_length=1000, **declare(RESTART, DECLARED_BY_USER)
    )
    """Arguments: `:name` in SQL, `${name}` in the paths of tables, the third parameter of a Python query."""
    secrets: dict[Identifier, Name] = Field(default_factory=dict, max_length=100, **declare(RESTART, DECLARED_BY_USER))
    """Secrets of the job's Python: the name under which the code gets the value, and the name of the secret. A value is
    read when a task starts. Such a job has Spark hosts of its own."""
    inputs: dict[Identifier, Input] = Field(default_factory=dict, max_length=100)
    # Left out where it is empty: the release before does not know it.
    streams: dict[Identifier, Stream] = Field(default_factory=dict, max_length=100, exclude_if=operator.not_)
    dead_letter_topic: Topic | None = Field(None, **declare(RESTART, DECLARED_BY_USER))
    """Topic of malformed records, on the cell's own Kafka; headers name where each came from and the reason. It is made
    with the first such record. Default: `<job>.dead-letters`."""
    tables: dict[Identifier, Table] = Field(default_factory=dict, max_length=100)
    output: Output
    # Left out where it is empty: the release before does not know it.
    side_outputs: dict[Identifier, SideOutput] = Field(default_factory=dict, max_length=20, exclude_if=operator.not_)
    output_mode: Literal["append", "update", "complete"] = Field("append", **declare(FORBIDDEN, DECLARED_BY_USER))
    """Spark's output mode."""
    task_count: int = Field(1, ge=1, le=10_000, **declare(RESCALE, unit="tasks"))
    """Number of tasks. Each task reads its own key groups."""
    key_group_bounds: tuple[Bound, ...] | None = Field(
        None, min_length=1, max_length=9_999, **declare(RESCALE, unit="key groups")
    )
    """First key group of each task but the first, ascending: with `[2, 5]` three tasks read 0-1, 2-4 and the rest.
    Default: equal ranges. Bounds for another number of tasks than task_count are ignored."""
    max_task_count: int = Field(32, ge=1, le=10_000, **declare(NONE, DECLARED_BY_USER, unit="tasks"))
    """Limit of task_count, so that no job takes the whole cluster."""
    threads_per_task: int = Field(1, ge=1, le=64, **declare(RESCALE, unit="threads"))
    """Number of shuffle partitions: the largest parallelism inside a task."""
    resources: Resources = Field(default_factory=Resources)
    trigger_interval_seconds: float = Field(5.0, ge=0, le=86_400, **declare(RESTART, unit="seconds"))
    """Time between micro-batches. 0: the next starts at once; a task that found no rows looks again after 0.1 s."""
    max_records_per_trigger: int | None = Field(None, ge=1, le=10**9, **declare(RESTART, unit="records"))
    """Most records in a micro-batch of a task. Default: as many as max_batch_seconds allows."""
    max_bytes_per_trigger: int | None = Field(None, ge=1, le=2**50, **declare(RESTART, unit="bytes"))
    """Most bytes in a micro-batch of a task, by the mean record size before compression. Default: as many as
    max_batch_seconds allows."""
    max_batch_seconds: float | None = Field(None, ge=0.1, le=86_400, **declare(RESTART, unit="seconds"))
    """How long a micro-batch should take at most: in a catch-up a task takes as many records as it can do in this time,
    of a stream as many files. The first batches show how many these are, so they may take longer, and so may a batch of
    other records. Default: 10 seconds or trigger_interval_seconds, the longer one; none if max_records_per_trigger or
    max_bytes_per_trigger is set."""
    isolation: Literal["shared", "process"] = Field("shared", **declare(RESTART))
    """`process` gives each task a Spark host of its own, with its own memory limit."""
    state_backend: Literal["heap", "rocksdb"] = Field("heap", **declare(FORBIDDEN, DECLARED_BY_USER))
    """Spark's state store. `heap`: a host has the whole state of its tasks in memory, and a task that starts loads its
    own first. `rocksdb`: state is on disk, and starts take as long with many keys as with few; choose it for a job that
    may come to have a million keys or more. A job cannot change it later."""
    completeness: Literal["wait", "drop_late"] = Field("wait", **declare(RESTART, DECLARED_BY_USER))
    """What happens when tasks or producers are behind in event time. `wait`: the faster ones wait for them, so nothing
    is late because of them. `drop_late`: rows behind the greatest watermark are late. It decides for the tasks in a
    rescale, by the value that the job ran with before, and for the producers of topics that the job reads
    (completeness_wait_seconds)."""
    rescale_within_seconds: float | None = Field(None, gt=0, le=86_400, **declare(NONE, unit="seconds"))
    """How long tasks may take to finish their batches and to catch up, before a rescale stops them. If they need
    longer, or are expected to, the rescale is taken back without a stop, and tried again later. Default: 10 minutes."""
    completeness_wait_seconds: float = Field(
        600.0, ge=1, le=604_800, **declare(RESTART, DECLARED_BY_USER, unit="seconds")
    )
    """With `completeness: drop_late`: how long a reader of a topic that jobs write waits for a producer that is behind
    and comes no further in event time. Whether the producer writes rows does not matter. After that its rows may be
    late until it comes further. With `wait` the reader waits for ever."""
    slo: Slo = Field(default_factory=Slo)
    priority: int = Field(0, ge=-1000, le=1000, **declare(LIVE))
    """When capacity is short, jobs with a higher priority get it first."""
    region: Name | None = Field(None, **declare(RESCALE, DECLARED_BY_USER))
    """Run only on containers of this region. Default: any. Changing this moves the job's tasks to other shards, so all
    of them stop first."""
    container_labels: dict[Name, Name] = Field(
        default_factory=dict, max_length=10, **declare(RESCALE, DECLARED_BY_USER)
    )
    """Run only on containers with all these labels (their setting PENSTOCK_CONTAINER_LABELS). A change costs as much as
    one of `region`."""
    desired_state: DesiredState = Field(DesiredState.RUNNING, **declare(RESTART))
    """Whether the tasks should run."""
    spark_settings: dict[ShortText, ShortText] = Field(
        default_factory=dict,
        max_length=100,
        description=f"Spark SQL settings of the task's session. A job may set only {ALLOWED_TEXT}.",
        **declare(RESTART, DECLARED_BY_USER),
    )
    owner: str = Field("", max_length=200, **declare(NONE, DECLARED_BY_USER))
    """Person or team that is responsible for the job."""
    labels: dict[Name, ShortText] = Field(default_factory=dict, max_length=100, **declare(NONE))
    """Labels for your own use."""

    @property
    def sources(self) -> dict[str, Input | Stream]:
        """All inputs and streams by name, of which no two are the same."""
        return {**self.inputs, **self.streams}

    @property
    def outputs(self) -> dict[str, Output]:
        """All outputs, by their fields: `output`, and `side_outputs.<name>.output` by name."""
        sides = {side_field(name): self.side_outputs[name].output for name in sorted(self.side_outputs)}
        return {MAIN: self.output, **sides}


MAIN = "output"
"""The field of the output that every job has."""


def side_field(name: str) -> str:
    """The field of the output of a side output."""
    return f"side_outputs.{name}.output"


def side_name(field: str) -> str | None:
    """The name of the side output whose output has this field; None for `output`."""
    return None if field == MAIN else field.split(".")[1]
