"""`JobConfig`: all that Penstock knows of a job, as a frozen, typed model.

Every leaf declares, once and beside its type, its unit, its change kind and the layers that may set it
(`declare`). The field table (`penstock.config.fields`), validation, classification, API docs and CLI help are
drawn from these declarations. Inputs and outputs have their own modules; import all of them from here.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from penstock.config.declare import (
    ANY_LAYER,
    DECLARED_BY_USER,
    OF_THE_PACKAGE,
    ChangeKind,
    Identifier,
    Model,
    Name,
    Topic,
    declare,
)
from penstock.config.inputs import Input, Table
from penstock.config.outputs import DeltaOutput, FilesOutput, KafkaOutput, Output, PostgresOutput

__all__ = [
    "ANY_LAYER",
    "DECLARED_BY_USER",
    "ChangeKind",
    "DeltaOutput",
    "DesiredState",
    "FilesOutput",
    "Identifier",
    "Input",
    "JobConfig",
    "KafkaOutput",
    "Model",
    "Name",
    "Output",
    "Package",
    "PostgresOutput",
    "Query",
    "Resources",
    "Slo",
    "Table",
    "Topic",
    "declare",
]

ShortText = Annotated[str, Field(max_length=1000)]
Bound = Annotated[int, Field(ge=1, le=9_999)]
ArgumentText = Annotated[str, Field(max_length=100_000)]


class DesiredState(StrEnum):
    """Whether the job's tasks should exist."""

    RUNNING = "running"
    STOPPED = "stopped"


class Package(Model):
    """The code of a job. `builtin` has none: its jobs are SQL only."""

    name: Name = Field(
        "builtin",
        **declare(
            "Name of the package with the job's Python code; `builtin` for a job that has only SQL.",
            ChangeKind.RESTART,
            layers=OF_THE_PACKAGE,
        ),
    )
    version: str = Field(
        "0",
        min_length=1,
        max_length=100,
        **declare("Version of the package.", ChangeKind.RESTART, layers=OF_THE_PACKAGE),
    )
    digest: str | None = Field(
        None,
        pattern=r"^sha256:[0-9a-f]{64}$",
        **declare(
            "SHA-256 of the package file as `sha256:<hex>`; checked before the code runs.",
            ChangeKind.RESTART,
            layers=OF_THE_PACKAGE,
        ),
    )


class Query(Model):
    """What a task computes: exactly one of `sql` and `python`."""

    sql: str | None = Field(
        None,
        min_length=1,
        max_length=100_000,
        **declare(
            "One SELECT in Spark SQL. Each input and each table is a view with its own name.",
            ChangeKind.RESTART,
            layers=OF_THE_PACKAGE,
        ),
    )
    python: str | None = Field(
        None,
        max_length=500,
        pattern=r"^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*$",
        **declare(
            "`module:function` in the package; called as `function(session, inputs, args)`, returns a DataFrame.",
            ChangeKind.RESTART,
            layers=OF_THE_PACKAGE,
        ),
    )


class Resources(Model):
    """Reserved for each task."""

    cpu_cores: float = Field(
        0.25,
        gt=0,
        le=256,
        **declare(
            "CPU reserved for a task. Placement goes by the measured use; this limits its growth.",
            ChangeKind.LIVE,
            unit="cores",
        ),
    )
    memory_bytes: int = Field(
        400 * 2**20,
        ge=64 * 2**20,
        le=2**42,
        **declare(
            "Memory of a task. For an isolated task it is the limit of the process.", ChangeKind.RESTART, unit="bytes"
        ),
    )
    disk_bytes: int = Field(2**30, ge=0, le=2**50, **declare("Local disk of a task.", ChangeKind.LIVE, unit="bytes"))


class Slo(Model):
    """What users are promised."""

    max_lag_seconds: float = Field(
        90.0,
        gt=0,
        le=604_800,
        **declare(
            "The job is unhealthy when it lags behind by more than this.",
            ChangeKind.NONE,
            unit="seconds",
            layers=DECLARED_BY_USER,
        ),
    )


class JobConfig(Model):
    """The merged configuration of a job (DESIGN.md section 4)."""

    package: Package = Field(default_factory=Package)
    query: Query
    args: dict[Identifier, ArgumentText | int | float | bool] = Field(
        default_factory=dict,
        max_length=1000,
        **declare(
            "Arguments: `:name` in SQL, `${name}` in the paths of tables, the third parameter of a Python query.",
            ChangeKind.RESTART,
            layers=DECLARED_BY_USER,
        ),
    )
    inputs: dict[Identifier, Input] = Field(..., min_length=1, max_length=100)
    tables: dict[Identifier, Table] = Field(default_factory=dict, max_length=100)
    output: Output
    output_mode: Literal["append", "update", "complete"] = Field(
        "append", **declare("Spark's output mode.", ChangeKind.FORBIDDEN, layers=DECLARED_BY_USER)
    )
    task_count: int = Field(
        1,
        ge=1,
        le=10_000,
        **declare("Number of tasks. Each task reads its own key groups.", ChangeKind.RESCALE, unit="tasks"),
    )
    key_group_bounds: tuple[Bound, ...] | None = Field(
        None,
        min_length=1,
        max_length=9_999,
        **declare(
            "First key group of each task but the first, ascending: with `[2, 5]` three tasks read 0-1, 2-4 "
            "and the rest. Default: equal ranges. Bounds for another number of tasks than task_count are "
            "ignored.",
            ChangeKind.RESCALE,
            unit="key groups",
        ),
    )
    max_task_count: int = Field(
        32,
        ge=1,
        le=10_000,
        **declare(
            "Limit of task_count, so that no job takes the whole cluster.",
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
            "Number of shuffle partitions: the largest parallelism inside a task.", ChangeKind.RESCALE, unit="threads"
        ),
    )
    resources: Resources = Field(default_factory=Resources)
    trigger_interval_seconds: float = Field(
        5.0,
        ge=0,
        le=86_400,
        **declare("Time between micro-batches; 0 means as fast as possible.", ChangeKind.RESTART, unit="seconds"),
    )
    max_records_per_trigger: int | None = Field(
        None,
        ge=1,
        le=10**9,
        **declare("Most records in a micro-batch of a task. Default: unlimited.", ChangeKind.RESTART, unit="records"),
    )
    max_bytes_per_trigger: int | None = Field(
        None,
        ge=1,
        le=2**50,
        **declare(
            "Most bytes in a micro-batch of a task, by the mean record size before compression. Default: unlimited.",
            ChangeKind.RESTART,
            unit="bytes",
        ),
    )
    isolation: Literal["shared", "process"] = Field(
        "shared",
        **declare("`process` gives each task a Spark host of its own, with its own memory limit.", ChangeKind.RESTART),
    )
    state_backend: Literal["heap", "rocksdb"] = Field(
        "heap",
        **declare("Spark's state store: on the heap, or RocksDB.", ChangeKind.FORBIDDEN, layers=DECLARED_BY_USER),
    )
    completeness: Literal["wait", "drop_late"] = Field(
        "wait",
        **declare(
            "What a rescale does when the watermarks of the tasks differ. `wait`: the tasks that are behind "
            "first read up to the others; the rescale is put off when they do not get there. `drop_late`: "
            "state moves at once, and rows behind the greatest watermark are late.",
            ChangeKind.LIVE,
            layers=DECLARED_BY_USER,
        ),
    )
    slo: Slo = Field(default_factory=Slo)
    priority: int = Field(
        0,
        ge=-1000,
        le=1000,
        **declare("When capacity is short, jobs with a higher priority get it first.", ChangeKind.LIVE),
    )
    region: Name | None = Field(
        None,
        **declare(
            "Run only on containers of this region. Default: any. Changing this moves the job's tasks to "
            "other shards, so all of them stop first.",
            ChangeKind.RESCALE,
            layers=DECLARED_BY_USER,
        ),
    )
    container_labels: dict[Name, Name] = Field(
        default_factory=dict,
        max_length=10,
        **declare(
            "Run only on containers with all these labels (their setting PENSTOCK_CONTAINER_LABELS). A "
            "change costs as much as one of `region`.",
            ChangeKind.RESCALE,
            layers=DECLARED_BY_USER,
        ),
    )
    desired_state: DesiredState = Field(
        DesiredState.RUNNING, **declare("Whether the tasks should run.", ChangeKind.RESTART)
    )
    spark_settings: dict[ShortText, ShortText] = Field(
        default_factory=dict,
        max_length=100,
        **declare(
            "Spark SQL settings of the task's session. Only settings of an allow-list are accepted.",
            ChangeKind.RESTART,
            layers=DECLARED_BY_USER,
        ),
    )
    owner: str = Field(
        "",
        max_length=200,
        **declare("Person or team that is responsible for the job.", ChangeKind.NONE, layers=DECLARED_BY_USER),
    )
    labels: dict[Name, ShortText] = Field(
        default_factory=dict, max_length=100, **declare("Labels for your own use.", ChangeKind.NONE)
    )
