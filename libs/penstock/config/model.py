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
        **declare("package name; `builtin` when the query is SQL only", ChangeKind.RESTART, layers=OF_THE_PACKAGE),
    )
    version: str = Field(
        "0",
        min_length=1,
        max_length=100,
        **declare("package version", ChangeKind.RESTART, layers=OF_THE_PACKAGE),
    )
    digest: str | None = Field(
        None,
        pattern=r"^sha256:[0-9a-f]{64}$",
        **declare("SHA-256 of the package file, checked before it runs", ChangeKind.RESTART, layers=OF_THE_PACKAGE),
    )


class Query(Model):
    """What a task computes: exactly one of `sql` and `python`."""

    sql: str | None = Field(
        None,
        min_length=1,
        max_length=100_000,
        **declare(
            "one SELECT in Spark SQL over the inputs and tables, which are views by their names",
            ChangeKind.RESTART,
            layers=OF_THE_PACKAGE,
        ),
    )
    python: str | None = Field(
        None,
        max_length=500,
        pattern=r"^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*$",
        **declare(
            "`module:function(session, inputs, args) -> DataFrame` in the package",
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
        **declare(
            "the job is unhealthy when it lags more than this",
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
            "arguments: `:name` in SQL, `${name}` in paths of tables, the third parameter of a Python query",
            ChangeKind.RESTART,
            layers=DECLARED_BY_USER,
        ),
    )
    inputs: dict[Identifier, Input] = Field(..., min_length=1, max_length=100)
    tables: dict[Identifier, Table] = Field(default_factory=dict, max_length=100)
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
    key_group_bounds: tuple[Bound, ...] | None = Field(
        None,
        min_length=1,
        max_length=9_999,
        **declare(
            "key groups at which the ranges of the tasks but the first begin, ascending: `[2, 5]` gives three tasks "
            "0-1, 2-4 and the rest; ranges are as equal as can be when absent. Bounds that are not one fewer than "
            "task_count are ignored until they are, so whoever changes task_count need not know of them",
            ChangeKind.RESCALE,
            unit="key groups",
        ),
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
    max_bytes_per_trigger: int | None = Field(
        None,
        ge=1,
        le=2**50,
        **declare(
            "largest micro-batch of a task, by the mean size of records before compression; unlimited when absent",
            ChangeKind.RESTART,
            unit="bytes",
        ),
    )
    isolation: Literal["shared", "process"] = Field(
        "shared", **declare("`process` gives each task its own host and memory limit", ChangeKind.RESTART)
    )
    state_backend: Literal["heap", "rocksdb"] = Field(
        "heap", **declare("Spark state store provider", ChangeKind.FORBIDDEN, layers=DECLARED_BY_USER)
    )
    completeness: Literal["wait", "drop_late"] = Field(
        "wait",
        **declare(
            "of a rescale with a watermark: `wait` lets tasks that lag read on to the others' watermark before state "
            "moves, and puts the rescale off when they do not get there; `drop_late` moves at once: rows that such "
            "tasks have not read and that are behind the greatest watermark are late",
            ChangeKind.LIVE,
            layers=DECLARED_BY_USER,
        ),
    )
    slo: Slo = Field(default_factory=Slo)
    priority: int = Field(
        0,
        ge=-1000,
        le=1000,
        **declare("higher is served first when capacity is short", ChangeKind.LIVE),
    )
    region: Name | None = Field(
        None,
        **declare(
            "containers of this region only; any when absent. Its tasks are in other shards then, so all stop before",
            ChangeKind.RESCALE,
            layers=DECLARED_BY_USER,
        ),
    )
    container_labels: dict[Name, Name] = Field(
        default_factory=dict,
        max_length=10,
        **declare(
            "only containers that have all these labels (their setting `container_labels`); changes as region does",
            ChangeKind.RESCALE,
            layers=DECLARED_BY_USER,
        ),
    )
    desired_state: DesiredState = Field(
        DesiredState.RUNNING, **declare("whether the tasks should run", ChangeKind.RESTART)
    )
    spark_settings: dict[ShortText, ShortText] = Field(
        default_factory=dict,
        max_length=100,
        **declare(
            "Spark SQL settings of the task's session, from an allow-list",
            ChangeKind.RESTART,
            layers=DECLARED_BY_USER,
        ),
    )
    owner: str = Field(
        "", max_length=200, **declare("who answers for the job", ChangeKind.NONE, layers=DECLARED_BY_USER)
    )
    labels: dict[Name, ShortText] = Field(
        default_factory=dict, max_length=100, **declare("free labels", ChangeKind.NONE)
    )
