"""Which job a Delta table is of: one that replaces it whole, one that appends to it, or one that merges rows by key.

The note is a property of the table: each new table has one, set when it is created. Rows that others append to a table
that is replaced would be lost without a word. Appends of several jobs lose nothing, but a reader gets the rows of all:
each job but the first must say that it is meant. Jobs that write by key replace rows of each other: all of them must
say so, as with Postgres (`postgres_writers`).
"""

from __future__ import annotations

import json
from typing import NamedTuple

from pyspark.sql import SparkSession

from penstock.config.model import DeltaOutput, JobConfig
from penstock.control.errors import BrokenTask
from penstock.control.texts import first_few
from penstock.spark.sinks.context import column, quoted
from penstock.spark.sinks.delta_conflicts import retry_conflicts

_REPLACED_BY = "penstock.replacedBy"
_APPENDED = "penstock.appended"
# One property a job, whose name follows; the value says whether the job allows other writers.
_UPSERTED_BY = "penstock.upsertedBy."
_ALONE, _SHARED = "alone", "shared"
# The key of all jobs that write by key, as JSON.
_UPSERT_COLUMNS = "penstock.upsertColumns"
# What earlier releases noted, whichever job it was.
_BY_SOMEBODY = "true"
# Spark shows no value that looks like a secret or an address to it: `hourly` has "url" in it. Digits never do.
_IN_HEX = "x:"
_REDACTED = "*********(redacted)"


class Notes(NamedTuple):
    """The notes of a table. `upserted_by` says of each job that writes by key whether it allows other writers."""

    replaced_by: str | None
    appended: str | None
    upserted_by: dict[str, bool]
    upsert_columns: tuple[str, ...] | None


def notes_of(job: str, config: JobConfig, output: DeltaOutput) -> dict[str, str]:
    """The properties of a table that the job writes: names and values."""
    if output.upsert_columns:
        shared = _SHARED if output.allow_other_writers else _ALONE
        return {_UPSERTED_BY + _hex(job): shared, _UPSERT_COLUMNS: _hex(json.dumps(sorted(output.upsert_columns)))}
    return {_REPLACED_BY if _replaces(config) else _APPENDED: _hex(job)}


def read_notes(properties: dict[str, str]) -> Notes:
    """The notes among the properties of a table. Pure."""
    columns = properties.get(_UPSERT_COLUMNS)
    return Notes(
        _decoded(properties.get(_REPLACED_BY)),
        _decoded(properties.get(_APPENDED)),
        {
            str(_decoded(name.removeprefix(_UPSERTED_BY))): value == _SHARED
            for name, value in properties.items()
            if name.startswith(_UPSERTED_BY)
        },
        None if columns is None else tuple(json.loads(str(_decoded(columns)))),
    )


def require_free(session: SparkSession, job: str, config: JobConfig, output: DeltaOutput) -> None:
    """Raises BrokenTask when an existing table is of another job, and this one does not say that both are meant; or
    when rows cannot be merged into it by the job's key."""
    notes = _notes(session, output.path)
    _require_no_upserts_of_others(notes, job, output)
    _require_not_of_another(session, notes, job, config, output)
    if output.upsert_columns:
        _require_key(session, notes, job, output)


def _require_not_of_another(
    session: SparkSession, notes: Notes, job: str, config: JobConfig, output: DeltaOutput
) -> None:
    owner = notes.replaced_by
    if output.allow_other_writers or owner == job:
        return
    if owner == _REDACTED:
        why = (
            f"a job whose name Spark hides replaces the table {output.path} in each batch, as an earlier release noted"
        )
        raise _taken(why, _forget(output, _REPLACED_BY) + _or_own(job, output))
    if owner is not None:
        raise _taken(f"the job {owner} replaces the table {output.path} in each batch", _forget(output, _REPLACED_BY))
    appender = notes.appended
    if not _replaces(config) and appender not in (None, _BY_SOMEBODY, _REDACTED, job):
        raise _taken(f"the job {appender} made the table {output.path} and appends to it", _forget(output, _APPENDED))
    if _replaces(config) and (appender is not None or _has_rows(session, output.path)):
        raise _taken(f"the table {output.path} has rows of others, which output_mode complete would replace")


def _require_no_upserts_of_others(notes: Notes, job: str, output: DeltaOutput) -> None:
    """One that writes by key, too, needs the consent of the others; one that appends or replaces, its own only."""
    refused = [
        name
        for name, shared in sorted(notes.upserted_by.items())
        if name != job and not (output.allow_other_writers and (shared or not output.upsert_columns))
    ]
    if not refused:
        return
    why = f"{first_few(refused)} also writes to the table {output.path} by key"
    raise _taken(why, " in all these jobs" + _forget(output, _UPSERTED_BY + _hex(refused[0])))


def _require_key(session: SparkSession, notes: Notes, job: str, output: DeltaOutput) -> None:
    """One key a table, and each key once. The rows are read only of a table that nobody has written by key yet."""
    if notes.upsert_columns is None:
        _require_unique(session, output)
    elif set(notes.upsert_columns) != set(output.upsert_columns):
        raise BrokenTask(
            f"output.upsert_columns: the key of the table {output.path} is {', '.join(notes.upsert_columns)}. Choose "
            f"another path{_forget(output, _UPSERT_COLUMNS, 'the table is to get another key')}",
            rule="other_key",
        )


def _require_unique(session: SparkSession, output: DeltaOutput) -> None:
    rows = session.read.format("delta").load(output.path)
    keys = rows.groupBy(*map(column, output.upsert_columns)).count()
    if keys.where("count > 1").head(1):
        raise BrokenTask(
            f"output.upsert_columns: the table {output.path} has several rows with the same "
            f"{', '.join(output.upsert_columns)}, and each batch would replace all of them. Name the table's key, or "
            "choose another path",
            rule="unique_key",
        )


def take_table(session: SparkSession, job: str, config: JobConfig, output: DeltaOutput) -> None:
    """Notes on an existing table that the job replaces it or writes it by key, if it does. Safe to repeat, and for
    several tasks at once.

    Raises as `require_free`, and Unavailable when others change the table's properties all the time.
    """
    retry_conflicts(output.path, lambda: _take(session, job, config, output))


def _take(session: SparkSession, job: str, config: JobConfig, output: DeltaOutput) -> None:
    require_free(session, job, config, output)
    own = {name: value for name, value in notes_of(job, config, output).items() if name != _APPENDED}
    have = _properties(session, output.path)
    if not own.items() <= have.items():
        session.sql(_noting(output, own))
    upserted_by = read_notes(have).upserted_by
    if not output.upsert_columns and job in upserted_by:
        # The job writes rows otherwise now, so its key need not be unique any more.
        alone = [] if len(upserted_by) > 1 else [_UPSERT_COLUMNS]
        session.sql(_unset(output, _UPSERTED_BY + _hex(job), *alone))


def _replaces(config: JobConfig) -> bool:
    return config.output_mode == "complete"


def _notes(session: SparkSession, path: str) -> Notes:
    return read_notes(_properties(session, path))


def _properties(session: SparkSession, path: str) -> dict[str, str]:
    """The table's properties that are Penstock's. Needs no Spark job."""
    rows = session.sql(f"SHOW TBLPROPERTIES {_quoted(path)}").collect()
    return {row["key"]: row["value"] for row in rows if row["key"].startswith("penstock.")}


def _decoded(value: str | None) -> str | None:
    """The text of a note. Earlier releases wrote the bare name of the job, which may be hidden."""
    if value is None or not value.startswith(_IN_HEX):
        return value
    return bytes.fromhex(value.removeprefix(_IN_HEX)).decode()


def _hex(text: str) -> str:
    return _IN_HEX + text.encode().hex()


def _has_rows(session: SparkSession, path: str) -> bool:
    return bool(session.read.format("delta").load(path).head(1))


def _taken(why: str, forget: str = "") -> BrokenTask:
    hint = "Choose another path. If this is meant, set output.allow_other_writers"
    return BrokenTask(f"output.path: {why}. {hint}{forget}", rule="table_taken")


def _forget(output: DeltaOutput, note: str, when: str = "that job is deleted") -> str:
    """How the note of a job is removed."""
    return f". If {when}: {_unset(output, note)}"


def _or_own(job: str, output: DeltaOutput) -> str:
    """How a job takes a note whose job cannot be read."""
    return f". If it is this job: {_noting(output, {_REPLACED_BY: _hex(job)})}"


def _noting(output: DeltaOutput, notes: dict[str, str]) -> str:
    pairs = ", ".join(f"'{name}' = '{value}'" for name, value in notes.items())
    return f"ALTER TABLE {_quoted(output.path)} SET TBLPROPERTIES ({pairs})"


def _unset(output: DeltaOutput, *notes: str) -> str:
    names = ", ".join(f"'{name}'" for name in notes)
    return f"ALTER TABLE {_quoted(output.path)} UNSET TBLPROPERTIES ({names})"


def _quoted(path: str) -> str:
    return f"delta.{quoted(path)}"
