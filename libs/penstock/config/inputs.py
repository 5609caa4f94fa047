"""What a job reads: Kafka topics by key group, and static tables to join with."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from penstock.config.declare import DECLARED_BY_USER, ChangeKind, Identifier, Model, Topic, declare


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
        min_length=1,
        max_length=100_000,
        **declare(
            "Spark DDL (json, csv) or Avro JSON schema (avro) of the record value; none for `raw`",
            ChangeKind.RESTART,
            layers=DECLARED_BY_USER,
        ),
    )
    key_function: Literal["spark", "kafka", "none"] = Field(
        "none",
        **declare(
            "how keys were put into partitions: `spark` pmod(hash(key_columns), n), as jobs write; `kafka` murmur2 of "
            "the key bytes, as outside producers do; `none` unknown, so keyed state needs a single task",
            ChangeKind.FORBIDDEN,
            layers=DECLARED_BY_USER,
        ),
    )
    key_columns: tuple[Identifier, ...] = Field(
        (),
        max_length=32,
        **declare(
            "columns that the partition was computed from, in order", ChangeKind.FORBIDDEN, layers=DECLARED_BY_USER
        ),
    )
    starting_position: Literal["earliest", "latest"] = Field(
        "earliest",
        **declare("where a task without a checkpoint begins", ChangeKind.NONE, layers=DECLARED_BY_USER),
    )
    event_time_column: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        **declare(
            "timestamp column that carries event time; goes with watermark_delay",
            ChangeKind.RESTART,
            layers=DECLARED_BY_USER,
        ),
    )
    watermark_delay: str | None = Field(
        None,
        pattern=r"^\d{1,9} (second|minute|hour|day)s?$",
        **declare(
            "how late rows may be, as a Spark interval such as `10 minutes`; goes with event_time_column",
            ChangeKind.RESTART,
            layers=DECLARED_BY_USER,
        ),
    )
    balance: Literal["auto", "index", "field", "sample", "off"] = Field(
        "auto",
        **declare(
            "how partitions keep pace in event time during a catch-up: `auto` fits the input and does nothing without "
            "event time; `index` Kafka's time index; `field` a field of the value; `sample` record timestamps; `off`",
            ChangeKind.RESTART,
            layers=DECLARED_BY_USER,
        ),
    )
    balance_field: str | None = Field(
        None,
        max_length=1000,
        pattern=r"^(/[^/]+)+$",
        **declare(
            "JSON pointer to the event time in the value (timestamp text or seconds), where it is not simply the "
            "event_time_column",
            ChangeKind.RESTART,
            layers=DECLARED_BY_USER,
        ),
    )
    idle_timeout_seconds: float | None = Field(
        None,
        ge=1,
        le=604_800,
        **declare(
            "when all inputs were idle for so long, the watermark goes on with the clock; rows that come later and "
            "are older are late; never when absent",
            ChangeKind.RESTART,
            unit="seconds",
            layers=DECLARED_BY_USER,
        ),
    )


class Table(Model):
    """A static table to join with, read at the start of each task."""

    path: str = Field(
        ...,
        min_length=1,
        max_length=4096,
        **declare(
            "Hadoop path of the table; `${name}` stands for an argument", ChangeKind.RESTART, layers=DECLARED_BY_USER
        ),
    )
    format: Literal["parquet", "csv", "json", "delta"] = Field(
        "parquet", **declare("file format", ChangeKind.RESTART, layers=DECLARED_BY_USER)
    )
    table_schema: str | None = Field(
        None,
        min_length=1,
        max_length=100_000,
        **declare(
            "Spark DDL of the table; taken from the files when absent", ChangeKind.RESTART, layers=DECLARED_BY_USER
        ),
    )
