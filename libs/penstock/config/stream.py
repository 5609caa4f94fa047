"""What a job reads in place of topics."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from penstock.config.csv_options import CsvFiles, is_default
from penstock.config.declare import DECLARED_BY_USER, ChangeKind, DeclaredModel, declare
from penstock.config.starting import POSITION

NONE, RESTART, FORBIDDEN = ChangeKind.NONE, ChangeKind.RESTART, ChangeKind.FORBIDDEN


class Stream(DeclaredModel):
    """A Delta table or a folder of files, whose new rows the one task of the job reads."""

    format: Literal["delta", "json", "csv", "parquet", "rate"] = Field(..., **declare(FORBIDDEN, DECLARED_BY_USER))
    """What is read: a Delta table, a folder with files of one format, or `rate`: rows with a number, `value`, and a
    time, `timestamp`, made for trying things out."""
    path: str | None = Field(None, min_length=1, max_length=4096, **declare(FORBIDDEN, DECLARED_BY_USER))
    """Hadoop path of the Delta table or the folder, below one of the cell's PENSTOCK_PATH_ROOTS. Not for rate."""
    value_schema: str | None = Field(None, min_length=1, max_length=100_000, **declare(RESTART, DECLARED_BY_USER))
    """Spark DDL of the columns of json, csv and parquet. A Delta table has its own."""
    header: bool = Field(True, **declare(RESTART, DECLARED_BY_USER))
    """Of csv: the first line of each file names the columns, in the order of value_schema."""
    csv: CsvFiles = Field(default_factory=CsvFiles, exclude_if=is_default)
    malformed: Literal["fail", "null"] = Field("fail", **declare(RESTART, DECLARED_BY_USER))
    """What becomes of a line of json or csv that does not fit value_schema: the task fails (`fail`), or the query gets
    what could be read and null for the rest (the text `"null"`, with the quotes)."""
    starting_position: str = Field("earliest", pattern=POSITION, **declare(NONE, DECLARED_BY_USER))
    """Of delta, where a task without a checkpoint begins. `earliest`: with the rows that the table has at the start.
    `latest`: after them. A moment such as `2026-11-26T08:00:00Z`: with the first version of this time or later."""
    starting_version: int | None = Field(None, ge=0, le=2**53, **declare(NONE, DECLARED_BY_USER))
    """Of delta: begin with the rows that this version has added. It is in place of starting_position."""
    changed_rows: Literal["fail", "skip"] = Field("fail", **declare(RESTART, DECLARED_BY_USER))
    """Of delta, what becomes of a version that changes or deletes rows: the task fails, or the whole version is passed
    over, also what it adds (`skip`)."""
    max_files_per_batch: int = Field(1000, ge=1, le=1_000_000, **declare(RESTART, DECLARED_BY_USER, unit="files"))
    """Most files in a micro-batch."""
    rows_per_second: int | None = Field(
        None, ge=1, le=1_000_000, **declare(RESTART, DECLARED_BY_USER, unit="rows/second")
    )
    """Of rate: how many rows are made."""
    event_time_column: str | None = Field(None, min_length=1, max_length=200, **declare(RESTART, DECLARED_BY_USER))
    """Timestamp column with the event time. Needs watermark_delay."""
    watermark_delay: str | None = Field(
        None, pattern=r"^\d{1,9} (second|minute|hour|day)s?$", **declare(RESTART, DECLARED_BY_USER)
    )
    """How late a row may be, such as `10 minutes`: at most 3650 days. Needs event_time_column."""
