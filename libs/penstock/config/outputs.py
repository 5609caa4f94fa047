"""What a job writes: one sink, chosen by `type`. What each promises is in DESIGN.md section 8."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from penstock.config.declare import DECLARED_BY_USER, ChangeKind, Identifier, Model, Name, Topic, declare

KIND_OF_SINK = declare("Kind of output.", ChangeKind.FORBIDDEN, layers=DECLARED_BY_USER)


class KafkaOutput(Model):
    """A topic of JSON records."""

    type: Literal["kafka"] = Field("kafka", **KIND_OF_SINK)
    topic: Topic = Field(..., **declare("Topic to write to.", ChangeKind.RESTART, layers=DECLARED_BY_USER))
    key_groups: int | None = Field(
        None,
        ge=1,
        le=10_000,
        **declare(
            "Number of partitions of the topic. A row goes to partition pmod(hash(key_columns), n), by Spark's hash.",
            ChangeKind.FORBIDDEN,
            unit="key groups",
            layers=DECLARED_BY_USER,
        ),
    )
    key_columns: tuple[Identifier, ...] = Field(
        (),
        max_length=32,
        **declare(
            "Columns that form the record key and decide the partition.", ChangeKind.FORBIDDEN, layers=DECLARED_BY_USER
        ),
    )
    delivery: Literal["exactly_once", "at_least_once"] = Field(
        "exactly_once",
        **declare(
            "`exactly_once` writes in Kafka transactions, for readers with read_committed. `at_least_once` "
            "is Spark's own sink, which writes the rows of a repeated batch twice.",
            ChangeKind.RESTART,
            layers=DECLARED_BY_USER,
        ),
    )


class DeltaOutput(Model):
    """A Delta table, appended to exactly once."""

    type: Literal["delta"] = Field("delta", **KIND_OF_SINK)
    path: str = Field(
        ...,
        min_length=1,
        max_length=4096,
        **declare("Hadoop path of the Delta table.", ChangeKind.RESTART, layers=DECLARED_BY_USER),
    )
    partition_columns: tuple[Identifier, ...] = Field(
        (),
        max_length=32,
        **declare("Columns that partition the table.", ChangeKind.FORBIDDEN, layers=DECLARED_BY_USER),
    )


class FilesOutput(Model):
    """Files below `path`, one sub-folder a task, exactly once by Spark's own log."""

    type: Literal["files"] = Field("files", **KIND_OF_SINK)
    path: str = Field(
        ...,
        min_length=1,
        max_length=4096,
        **declare(
            "Hadoop path of a folder; each task writes to its own folder in it.",
            ChangeKind.RESTART,
            layers=DECLARED_BY_USER,
        ),
    )
    format: Literal["parquet", "json", "csv"] = Field(
        "parquet", **declare("File format.", ChangeKind.RESTART, layers=DECLARED_BY_USER)
    )


class PostgresOutput(Model):
    """A Postgres table; rows and batch marker go into one transaction."""

    type: Literal["postgres"] = Field("postgres", **KIND_OF_SINK)
    connection: Name = Field(
        "default",
        **declare(
            "Name of a connection in the setting PENSTOCK_CONNECTIONS of the containers, so that no secret "
            "is in the job.",
            ChangeKind.RESTART,
            layers=DECLARED_BY_USER,
        ),
    )
    table: str = Field(
        ...,
        pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?$",
        **declare(
            "Table to write to; it is created with the columns of the query when it is missing.",
            ChangeKind.RESTART,
            layers=DECLARED_BY_USER,
        ),
    )
    upsert_columns: tuple[Identifier, ...] = Field(
        (),
        max_length=32,
        **declare(
            "Columns of a unique key: a row replaces the row with the same key. Default: rows are appended.",
            ChangeKind.RESTART,
            layers=DECLARED_BY_USER,
        ),
    )


Output = Annotated[KafkaOutput | DeltaOutput | FilesOutput | PostgresOutput, Field(discriminator="type")]
