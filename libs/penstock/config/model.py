"""`JobConfig`: all that Penstock knows of a job, as a frozen, typed model.

Every leaf declares, once and beside its type, its unit, its change kind and the layers that may set it
(`declare`). The field table (`penstock.config.fields`), validation, classification, API docs and CLI help are
drawn from these declarations.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class ChangeKind(IntEnum):
    """What a change of a field costs a running job, cheapest first (Flink Kubernetes Operator's `DiffType`)."""

    NONE = 0
    LIVE = 1
    RESTART = 2
    RESCALE = 3
    FORBIDDEN = 4


ANY_LAYER: tuple[str, ...] = ("*",)
DECLARED_BY_USER: tuple[str, ...] = ("base", "provisioner", "oncall")


def declare(
    doc: str, change: ChangeKind, *, unit: str | None = None, layers: tuple[str, ...] = ANY_LAYER
) -> dict[str, Any]:
    """Keyword arguments for `Field`: documentation plus the penstock declaration of a leaf.

    `layers` names the layers that may set the field, `("*",)` for every layer, also ones added later as rows.
    """
    return {
        "description": doc,
        "json_schema_extra": {"penstock": {"change": change.name.lower(), "unit": unit, "layers": list(layers)}},
    }


class Model(BaseModel):
    """Base: frozen, unknown fields forbidden."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class DesiredState(StrEnum):
    """Whether the job's tasks should exist."""

    RUNNING = "running"
    STOPPED = "stopped"


Name = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9._-]{0,98}[a-z0-9])?$")]
Identifier = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}$")]
Topic = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")]
Duration = Annotated[float, Field(ge=0, le=31_536_000)]


class Package(Model):
    """The code of a job. `builtin` has none: its jobs are SQL only."""

    name: Name = Field(
        "builtin",
        **declare("package name; `builtin` when the query is SQL only", ChangeKind.RESTART, layers=DECLARED_BY_USER),
    )
    version: str = Field(
        "0",
        min_length=1,
        max_length=100,
        **declare("package version", ChangeKind.RESTART, layers=(*DECLARED_BY_USER, "rollback")),
    )
    digest: str | None = Field(
        None,
        pattern=r"^sha256:[0-9a-f]{64}$",
        **declare(
            "SHA-256 of the package file, checked before it runs",
            ChangeKind.RESTART,
            layers=(*DECLARED_BY_USER, "rollback"),
        ),
    )


class Query(Model):
    """What a task computes: exactly one of `sql` and `python`."""

    sql: str | None = Field(
        None,
        max_length=1_000_000,
        **declare(
            "Spark SQL text over the inputs and tables as views; may end in several statements' last SELECT",
            ChangeKind.RESTART,
            layers=DECLARED_BY_USER,
        ),
    )
    python: str | None = Field(
        None,
        pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$",
        **declare(
            "`module:function(session, inputs, args) -> DataFrame` in the package",
            ChangeKind.RESTART,
            layers=DECLARED_BY_USER,
        ),
    )


class Input(Model):
    """One Kafka topic, read by key group (partition)."""

    topic: Topic = Field(..., **declare("Kafka topic", ChangeKind.FORBIDDEN, layers=DECLARED_BY_USER))
    key_groups: int = Field(
        ...,
        ge=1,
        le=10_000,
        **declare(
            "partitions of the topic: the unit in which input and state move, and the largest task count",
            ChangeKind.FORBIDDEN,
            unit="key groups",
            layers=DECLARED_BY_USER,
        ),
    )
    format: Literal["json", "csv", "avro", "raw"] = Field(
        "json",
        **declare(
            "how the record value is encoded; `raw` gives Kafka's columns as they are",
            ChangeKind.RESTART,
            layers=DECLARED_BY_USER,
        ),
    )
    value_schema: str | None = Field(
        None,
        max_length=100_000,
        **declare(
            "Spark DDL (json, csv) or Avro JSON schema (avro) of the record value",
            ChangeKind.RESTART,
            layers=DECLARED_BY_USER,
        ),
    )
    key_function: Literal["spark", "kafka", "none"] = Field(
        "none",
        **declare(
            "how keys were put into partitions: `spark` pmod(hash(keys), n), `kafka` murmur2 of the key bytes, `none` unknown",
            ChangeKind.FORBIDDEN,
            layers=DECLARED_BY_USER,
        ),
    )
    key_columns: tuple[Identifier, ...] = Field(
        (), **declare("columns that the partition was computed from", ChangeKind.FORBIDDEN, layers=DECLARED_BY_USER)
    )
    starting_position: Literal["earliest", "latest"] = Field(
        "earliest", **declare("where a task without a checkpoint begins", ChangeKind.NONE, layers=DECLARED_BY_USER)
    )
    event_time_column: str | None = Field(
        None,
        max_length=200,
        **declare("timestamp column that carries event time", ChangeKind.RESTART, layers=DECLARED_BY_USER),
    )
    watermark_delay: str | None = Field(
        None,
        pattern=r"^\d+ (second|minute|hour|day)s?$",
        **declare(
            "how late rows may be, as a Spark interval such as `10 minutes`",
            ChangeKind.RESTART,
            layers=DECLARED_BY_USER,
        ),
    )


class Table(Model):
    """A static table to join with, read at the start of each task."""

    path: str = Field(
        ...,
        min_length=1,
        max_length=4096,
        **declare("Hadoop path of the table", ChangeKind.RESTART, layers=DECLARED_BY_USER),
    )
    format: Literal["parquet", "csv", "json", "delta"] = Field(
        "parquet", **declare("file format", ChangeKind.RESTART, layers=DECLARED_BY_USER)
    )
    table_schema: str | None = Field(
        None,
        max_length=100_000,
        **declare(
            "Spark DDL of the table; taken from the files when absent", ChangeKind.RESTART, layers=DECLARED_BY_USER
        ),
    )


class KafkaOutput(Model):
    """A topic of JSON records."""

    type: Literal["kafka"] = Field("kafka", **declare("kind of sink", ChangeKind.FORBIDDEN, layers=DECLARED_BY_USER))
    topic: Topic = Field(..., **declare("topic written to", ChangeKind.RESTART, layers=DECLARED_BY_USER))
    key_groups: int | None = Field(
        None,
        ge=1,
        le=10_000,
        **declare(
            "partitions of the topic: rows go to pmod(hash(key_columns), n) by Spark's hash",
            ChangeKind.FORBIDDEN,
            unit="key groups",
            layers=DECLARED_BY_USER,
        ),
    )
    key_columns: tuple[Identifier, ...] = Field(
        (),
        **declare(
            "columns that decide the record key and the partition", ChangeKind.FORBIDDEN, layers=DECLARED_BY_USER
        ),
    )


class DeltaOutput(Model):
    """A Delta table, appended to exactly once."""

    type: Literal["delta"] = Field("delta", **declare("kind of sink", ChangeKind.FORBIDDEN, layers=DECLARED_BY_USER))
    path: str = Field(
        ...,
        min_length=1,
        max_length=4096,
        **declare("Hadoop path of the Delta table", ChangeKind.RESTART, layers=DECLARED_BY_USER),
    )
    partition_columns: tuple[Identifier, ...] = Field(
        (), **declare("columns that partition the table", ChangeKind.FORBIDDEN, layers=DECLARED_BY_USER)
    )


class FilesOutput(Model):
    """Files below `path`, one sub-folder a task, exactly once by Spark's own log."""

    type: Literal["files"] = Field("files", **declare("kind of sink", ChangeKind.FORBIDDEN, layers=DECLARED_BY_USER))
    path: str = Field(
        ...,
        min_length=1,
        max_length=4096,
        **declare("Hadoop path below which each task has its own folder", ChangeKind.RESTART, layers=DECLARED_BY_USER),
    )
    format: Literal["parquet", "json", "csv"] = Field(
        "parquet", **declare("file format", ChangeKind.RESTART, layers=DECLARED_BY_USER)
    )


class PostgresOutput(Model):
    """A Postgres table; rows and batch marker go into one transaction."""

    type: Literal["postgres"] = Field(
        "postgres", **declare("kind of sink", ChangeKind.FORBIDDEN, layers=DECLARED_BY_USER)
    )
    connection: Name = Field(
        "default",
        **declare(
            "name of a connection in the container's PENSTOCK_CONNECTIONS setting; secrets stay out of the store",
            ChangeKind.RESTART,
            layers=DECLARED_BY_USER,
        ),
    )
    table: str = Field(
        ...,
        pattern=r"^[A-Za-z_]\w{0,62}(\.[A-Za-z_]\w{0,62})?$",
        **declare("table, created from the query's columns when missing", ChangeKind.RESTART, layers=DECLARED_BY_USER),
    )
    upsert_columns: tuple[Identifier, ...] = Field(
        (),
        **declare(
            "unique key: rows replace those with the same key; empty appends",
            ChangeKind.RESTART,
            layers=DECLARED_BY_USER,
        ),
    )


Output = Annotated[KafkaOutput | DeltaOutput | FilesOutput | PostgresOutput, Field(discriminator="type")]


class Resources(Model):
    """Reserved for each task."""

    cpu_cores: float = Field(
        0.25,
        gt=0,
        le=256,
        **declare("CPU of a task; measured use decides placement, this bounds growth", ChangeKind.LIVE, unit="cores"),
    )
    memory_bytes: int = Field(
        400 * 2**20,
        ge=64 * 2**20,
        le=2**42,
        **declare("memory of a task; the process limit of an isolated one", ChangeKind.RESTART, unit="bytes"),
    )
    disk_bytes: int = Field(2**30, ge=0, le=2**50, **declare("local disk of a task", ChangeKind.LIVE, unit="bytes"))


class Slo(Model):
    """What users are promised."""

    max_lag_seconds: float = Field(
        90.0,
        gt=0,
        le=604_800,
        **declare("the job is unhealthy when it lags more than this", ChangeKind.NONE, unit="seconds"),
    )


class JobConfig(Model):
    """The merged configuration of a job (DESIGN.md section 4)."""

    package: Package = Field(default_factory=Package)
    query: Query
    args: dict[str, str | int | float | bool | None] = Field(
        default_factory=dict,
        **declare(
            "arguments of the query: `${name}` in SQL paths of tables, the third parameter in Python",
            ChangeKind.RESTART,
            layers=DECLARED_BY_USER,
        ),
    )
    inputs: dict[Identifier, Input] = Field(..., min_length=1)
    tables: dict[Identifier, Table] = Field(default_factory=dict)
    output: Output
    output_mode: Literal["append", "update", "complete"] = Field(
        "append", **declare("Spark output mode", ChangeKind.FORBIDDEN, layers=DECLARED_BY_USER)
    )
    task_count: int = Field(
        1,
        ge=1,
        le=10_000,
        **declare("tasks of the job, each reading its own key groups", ChangeKind.RESCALE, unit="tasks"),
    )
    max_task_count: int = Field(
        32,
        ge=1,
        le=10_000,
        **declare(
            "limit of task_count, so that no job takes the cluster (002 section VI-B)",
            ChangeKind.NONE,
            unit="tasks",
            layers=DECLARED_BY_USER,
        ),
    )
    threads_per_task: int = Field(
        1,
        ge=1,
        le=64,
        **declare(
            "shuffle partitions, and so the largest parallelism inside a task", ChangeKind.RESCALE, unit="threads"
        ),
    )
    resources: Resources = Field(default_factory=Resources)
    trigger_interval_seconds: float = Field(
        5.0,
        ge=0,
        le=86_400,
        **declare("time between micro-batches; 0 is as fast as possible", ChangeKind.RESTART, unit="seconds"),
    )
    max_records_per_trigger: int | None = Field(
        None,
        ge=1,
        le=10**9,
        **declare("largest micro-batch of a task; unlimited when absent", ChangeKind.RESTART, unit="records"),
    )
    isolation: Literal["shared", "process"] = Field(
        "shared", **declare("`process` gives each task its own host and memory limit", ChangeKind.RESTART)
    )
    state_backend: Literal["heap", "rocksdb"] = Field(
        "heap", **declare("Spark state store provider", ChangeKind.FORBIDDEN, layers=DECLARED_BY_USER)
    )
    slo: Slo = Field(default_factory=Slo)
    priority: int = Field(
        0, ge=-1000, le=1000, **declare("higher is served first when capacity is short", ChangeKind.LIVE)
    )
    region: Name | None = Field(
        None, **declare("containers of this region only; any when absent", ChangeKind.LIVE, layers=DECLARED_BY_USER)
    )
    desired_state: DesiredState = Field(
        DesiredState.RUNNING, **declare("whether the tasks should run", ChangeKind.RESTART)
    )
    spark_settings: dict[str, str] = Field(
        default_factory=dict,
        **declare(
            "Spark SQL settings of the task's session, from an allow-list", ChangeKind.RESTART, layers=DECLARED_BY_USER
        ),
    )
    owner: str = Field(
        "", max_length=200, **declare("who answers for the job", ChangeKind.NONE, layers=DECLARED_BY_USER)
    )
    labels: dict[Name, str] = Field(default_factory=dict, **declare("free labels", ChangeKind.NONE))
