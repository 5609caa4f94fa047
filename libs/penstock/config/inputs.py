"""What a job reads: Kafka topics by key group, and static tables to join with."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from penstock.config.declare import DECLARED_BY_USER, ChangeKind, Identifier, Model, Topic, declare


class Input(Model):
    """One Kafka topic, read by key group (partition)."""

    topic: Topic = Field(..., **declare("Kafka topic to read.", ChangeKind.FORBIDDEN, layers=DECLARED_BY_USER))
    key_groups: int = Field(
        ...,
        ge=1,
        le=10_000,
        **declare(
            "Number of partitions of the topic. Input and state move between tasks in this unit, so it "
            "limits the number of tasks.",
            ChangeKind.FORBIDDEN,
            unit="key groups",
            layers=DECLARED_BY_USER,
        ),
    )
    format: Literal["json", "csv", "avro", "raw"] = Field(
        "json",
        **declare(
            "Encoding of the record value; `raw` gives Kafka's own columns.",
            ChangeKind.RESTART,
            layers=DECLARED_BY_USER,
        ),
    )
    value_schema: str | None = Field(
        None,
        min_length=1,
        max_length=100_000,
        **declare(
            "Schema of the record value: Spark DDL for json and csv, Avro's JSON for avro. Not allowed for raw.",
            ChangeKind.RESTART,
            layers=DECLARED_BY_USER,
        ),
    )
    key_function: Literal["spark", "kafka", "none"] = Field(
        "none",
        **declare(
            "How the writer chose the partition of a key: `spark` by Spark's hash of key_columns (as jobs "
            "do), `kafka` by murmur2 of the key bytes (as most other producers do), `none` unknown. With "
            "`none` a job with keyed state can have one task only.",
            ChangeKind.FORBIDDEN,
            layers=DECLARED_BY_USER,
        ),
    )
    key_columns: tuple[Identifier, ...] = Field(
        (),
        max_length=32,
        **declare(
            "Columns from which the partition was computed, in their order.",
            ChangeKind.FORBIDDEN,
            layers=DECLARED_BY_USER,
        ),
    )
    starting_position: Literal["earliest", "latest"] = Field(
        "earliest",
        **declare("Where a task without a checkpoint starts to read.", ChangeKind.NONE, layers=DECLARED_BY_USER),
    )
    event_time_column: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        **declare(
            "Timestamp column with the event time. Needs watermark_delay.",
            ChangeKind.RESTART,
            layers=DECLARED_BY_USER,
        ),
    )
    watermark_delay: str | None = Field(
        None,
        pattern=r"^\d{1,9} (second|minute|hour|day)s?$",
        **declare(
            "How late a row may be, such as `10 minutes`. Needs event_time_column.",
            ChangeKind.RESTART,
            layers=DECLARED_BY_USER,
        ),
    )
    balance: Literal["auto", "index", "field", "sample", "off"] = Field(
        "auto",
        **declare(
            "How partitions stay at the same event time during a catch-up: by Kafka's time index (`index`), "
            "by a field of the value (`field`), by sampled record timestamps (`sample`), or not at all "
            "(`off`). `auto` chooses by the input; without event time it is `off`.",
            ChangeKind.RESTART,
            layers=DECLARED_BY_USER,
        ),
    )
    balance_field: str | None = Field(
        None,
        max_length=1000,
        pattern=r"^(/[^/]+)+$",
        **declare(
            "JSON pointer to the event time in the value (a timestamp text or seconds). Default: the field "
            "of event_time_column.",
            ChangeKind.RESTART,
            layers=DECLARED_BY_USER,
        ),
    )
    idle_timeout_seconds: float | None = Field(
        None,
        ge=1,
        le=604_800,
        **declare(
            "After this time without any input, the watermark advances with the clock. Older rows that "
            "arrive later are late. Default: never.",
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
            "Hadoop path of the table; `${name}` is replaced by an argument.",
            ChangeKind.RESTART,
            layers=DECLARED_BY_USER,
        ),
    )
    format: Literal["parquet", "csv", "json", "delta"] = Field(
        "parquet", **declare("File format.", ChangeKind.RESTART, layers=DECLARED_BY_USER)
    )
    table_schema: str | None = Field(
        None,
        min_length=1,
        max_length=100_000,
        **declare(
            "Spark DDL of the table. Default: as the files have it.", ChangeKind.RESTART, layers=DECLARED_BY_USER
        ),
    )
