"""What a job writes: one sink, chosen by `type`. What each promises is in DESIGN.md section 8."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from penstock.config.declare import DECLARED_BY_USER, ChangeKind, Identifier, Model, Name, Topic, declare

KIND_OF_SINK = declare("kind of sink", ChangeKind.FORBIDDEN, layers=DECLARED_BY_USER)


class KafkaOutput(Model):
    """A topic of JSON records."""

    type: Literal["kafka"] = Field("kafka", **KIND_OF_SINK)
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
        max_length=32,
        **declare(
            "columns that decide the record key and the partition", ChangeKind.FORBIDDEN, layers=DECLARED_BY_USER
        ),
    )
    delivery: Literal["exactly_once", "at_least_once"] = Field(
        "exactly_once",
        **declare(
            "exactly_once: in Kafka transactions, for readers with read_committed; at_least_once: Spark's own sink,"
            " which writes the rows of a repeated batch again",
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
        **declare("Hadoop path of the Delta table", ChangeKind.RESTART, layers=DECLARED_BY_USER),
    )
    partition_columns: tuple[Identifier, ...] = Field(
        (),
        max_length=32,
        **declare("columns that partition the table", ChangeKind.FORBIDDEN, layers=DECLARED_BY_USER),
    )


class FilesOutput(Model):
    """Files below `path`, one sub-folder a task, exactly once by Spark's own log."""

    type: Literal["files"] = Field("files", **KIND_OF_SINK)
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

    type: Literal["postgres"] = Field("postgres", **KIND_OF_SINK)
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
        pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?$",
        **declare("table, created from the query's columns when missing", ChangeKind.RESTART, layers=DECLARED_BY_USER),
    )
    upsert_columns: tuple[Identifier, ...] = Field(
        (),
        max_length=32,
        **declare(
            "unique key: rows replace those with the same key; empty appends",
            ChangeKind.RESTART,
            layers=DECLARED_BY_USER,
        ),
    )


Output = Annotated[KafkaOutput | DeltaOutput | FilesOutput | PostgresOutput, Field(discriminator="type")]
