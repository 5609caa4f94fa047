"""Which job a Delta table is of: one that replaces it whole, or one that appends to it.

The note is a property of the table: each new table has one, set when it is created. Rows that others append to a table
that is replaced would be lost without a word. Appends of several jobs lose nothing, but a reader gets the rows of all:
each job but the first must say that it is meant.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from penstock.config.model import DeltaOutput, JobConfig
from penstock.control.errors import BrokenTask

_REPLACED_BY = "penstock.replacedBy"
_APPENDED = "penstock.appended"
# What earlier releases noted, whichever job it was.
_BY_SOMEBODY = "true"
# Spark shows no value that looks like a secret or an address to it: `hourly` has "url" in it. Digits never do.
_IN_HEX = "x:"
_REDACTED = "*********(redacted)"


def note_of(job: str, config: JobConfig) -> tuple[str, str]:
    """The property of a table that the job creates: name and value."""
    return (_REPLACED_BY if _replaces(config) else _APPENDED), _hex(job)


def require_free(session: SparkSession, job: str, config: JobConfig, output: DeltaOutput) -> None:
    """Raises BrokenTask when an existing table is of another job, and this one does not say that both are meant."""
    notes = _notes(session, output.path)
    owner = notes.get(_REPLACED_BY)
    if output.allow_other_writers or owner == job:
        return
    if owner == _REDACTED:
        why = (
            f"a job whose name Spark hides replaces the table {output.path} in each batch, as an earlier release noted"
        )
        raise _taken(why, _forget(output, _REPLACED_BY) + _or_own(job, output))
    if owner is not None:
        raise _taken(f"the job {owner} replaces the table {output.path} in each batch", _forget(output, _REPLACED_BY))
    appender = notes.get(_APPENDED)
    if not _replaces(config) and appender not in (None, _BY_SOMEBODY, _REDACTED, job):
        raise _taken(f"the job {appender} made the table {output.path} and appends to it", _forget(output, _APPENDED))
    if _replaces(config) and (_APPENDED in notes or _has_rows(session, output.path)):
        raise _taken(f"the table {output.path} has rows of others, which output_mode complete would replace")


def take_table(session: SparkSession, job: str, config: JobConfig, output: DeltaOutput) -> None:
    """Notes that the job replaces an existing table, if it does. Safe to repeat. Raises as `require_free`."""
    require_free(session, job, config, output)
    if _replaces(config) and _notes(session, output.path).get(_REPLACED_BY) != job:
        session.sql(_noting(output, note_of(job, config)))


def _replaces(config: JobConfig) -> bool:
    return config.output_mode == "complete"


def _notes(session: SparkSession, path: str) -> dict[str, str]:
    """The table's properties that are Penstock's. Needs no Spark job."""
    rows = session.sql(f"SHOW TBLPROPERTIES {_quoted(path)}").collect()
    return {row["key"]: _job_of(row["value"]) for row in rows if row["key"] in (_REPLACED_BY, _APPENDED)}


def _job_of(value: str) -> str:
    """The job in a note. Earlier releases wrote the bare name, which may be hidden."""
    return bytes.fromhex(value.removeprefix(_IN_HEX)).decode() if value.startswith(_IN_HEX) else value


def _hex(job: str) -> str:
    return _IN_HEX + job.encode().hex()


def _has_rows(session: SparkSession, path: str) -> bool:
    return bool(session.read.format("delta").load(path).head(1))


def _taken(why: str, forget: str = "") -> BrokenTask:
    hint = "Choose another path. If this is meant, set output.allow_other_writers"
    return BrokenTask(f"output.path: {why}. {hint}{forget}", rule="table_taken")


def _forget(output: DeltaOutput, note: str) -> str:
    """How the note of a job is removed."""
    return f". If that job is deleted: ALTER TABLE {_quoted(output.path)} UNSET TBLPROPERTIES ('{note}')"


def _or_own(job: str, output: DeltaOutput) -> str:
    """How a job takes a note whose job cannot be read."""
    return f". If it is this job: {_noting(output, (_REPLACED_BY, _hex(job)))}"


def _noting(output: DeltaOutput, note: tuple[str, str]) -> str:
    return f"ALTER TABLE {_quoted(output.path)} SET TBLPROPERTIES ('{note[0]}' = '{note[1]}')"


def _quoted(path: str) -> str:
    return "delta.`" + path.replace("`", "``") + "`"
