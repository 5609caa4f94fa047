"""What a job reads in place of topics."""

from __future__ import annotations

import operator
from typing import Literal

from pydantic import Field

from penstock.config.csv_options import CsvFiles, is_default
from penstock.config.declare import DECLARED_BY_USER, ChangeKind, DeclaredModel, Identifier, declare
from penstock.config.starting import POSITION

NONE, RESTART, FORBIDDEN = ChangeKind.NONE, ChangeKind.RESTART, ChangeKind.FORBIDDEN


def _is_one(key_groups: int) -> bool:
    """For a field that is left out where it has its default: the release before does not know it."""
    return key_groups == 1


class Stream(DeclaredModel):
    """A Delta table or a folder of files, whose new rows the tasks of the job read, each those of its key groups."""

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
    key_groups: int = Field(
        1, ge=1, le=10_000, exclude_if=_is_one, **declare(FORBIDDEN, DECLARED_BY_USER, unit="key groups")
    )
    """Of delta, json, csv and parquet: into how many key groups the rows are divided. It limits the number of tasks.
    All streams of a job have the same number."""
    key_columns: tuple[Identifier, ...] = Field(
        (), max_length=32, exclude_if=operator.not_, **declare(FORBIDDEN, DECLARED_BY_USER)
    )
    """With several key_groups: a row is in key group pmod(hash(key_columns), key_groups), by Spark's hash. Each task
    then reads all rows and keeps its own. How the keys are read (their types; of csv their places, header and csv)
    cannot change. Default: a row is in the key group of its file, and each task reads its own files; a query that keeps
    state can have one task only then."""
    max_files_per_batch: int = Field(1000, ge=1, le=1_000_000, **declare(RESTART, DECLARED_BY_USER, unit="files"))
    """Most files in a micro-batch, however quick it is."""
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

    @property
    def key_function(self) -> Literal["spark", "none"]:
        """As `Input.key_function`."""
        return "spark" if self.key_columns else "none"
