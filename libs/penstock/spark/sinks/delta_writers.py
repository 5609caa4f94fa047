"""Which job replaces a Delta table whole. Rows that others append to such a table would be lost without a word.

The note is a property of the table: each new table has one, set when it is created.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from penstock.config.model import DeltaOutput, JobConfig
from penstock.control.errors import BrokenTask

_REPLACED_BY = "penstock.replacedBy"
_APPENDED = "penstock.appended"


def note_of(job: str, config: JobConfig) -> tuple[str, str]:
    """The property of a table that the job creates: name and value."""
    return (_REPLACED_BY, job) if _replaces(config) else (_APPENDED, "true")


def require_free(session: SparkSession, job: str, config: JobConfig, output: DeltaOutput) -> None:
    """Raises BrokenTask when the job and another one would write to an existing table, and one of them replaces it."""
    notes = _notes(session, output.path)
    owner = notes.get(_REPLACED_BY)
    if output.allow_other_writers or owner == job:
        return
    if owner is not None:
        raise _taken(f"the job {owner} replaces the table {output.path} in each batch")
    if _replaces(config) and (_APPENDED in notes or _has_rows(session, output.path)):
        raise _taken(f"the table {output.path} has rows of others, which output_mode complete would replace")


def take_table(session: SparkSession, job: str, config: JobConfig, output: DeltaOutput) -> None:
    """Notes that the job replaces an existing table, if it does. Safe to repeat. Raises as `require_free`."""
    require_free(session, job, config, output)
    if _replaces(config) and _notes(session, output.path).get(_REPLACED_BY) != job:
        name, value = note_of(job, config)
        session.sql(f"ALTER TABLE {_quoted(output.path)} SET TBLPROPERTIES ('{name}' = '{value}')")


def _replaces(config: JobConfig) -> bool:
    return config.output_mode == "complete"


def _notes(session: SparkSession, path: str) -> dict[str, str]:
    """The table's properties that are Penstock's. Needs no Spark job."""
    rows = session.sql(f"SHOW TBLPROPERTIES {_quoted(path)}").collect()
    return {row["key"]: row["value"] for row in rows if row["key"] in (_REPLACED_BY, _APPENDED)}


def _has_rows(session: SparkSession, path: str) -> bool:
    return bool(session.read.format("delta").load(path).head(1))


def _taken(why: str) -> BrokenTask:
    return BrokenTask(
        f"output.path: {why}. Choose another path. If this is meant, set output.allow_other_writers",
        rule="table_taken",
    )


def _quoted(path: str) -> str:
    return "delta.`" + path.replace("`", "``") + "`"
