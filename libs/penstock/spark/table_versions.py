"""Tables of a task that refresh: each batch reads one version, and a batch that is repeated reads it again.

The JVM looks for newer versions before it plans a batch (`io.penstock.tables.TableVersions`). It notes them in the file
`<checkpoint>/tables/<batch>`, which counts until the next one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock.config.model import JobConfig, Table
from penstock.config.paths import place_of
from penstock.control.errors import BrokenTask
from penstock.spark.checkpoint import is_clean, last_offset, numbers
from penstock.spark.failures import reason_of
from penstock.spark.files import Files
from penstock.spark.tables import mode_of, read_table, reader_options, substitute

FOLDER = "tables"


def refreshes(table: Table) -> bool:
    """Whether a running task reads newer versions of the table."""
    return table.format == "delta" or table.refresh_seconds is not None


class TableVersions:
    """The versions of the tables of one task. `java` is its hook, which looks and notes."""

    def __init__(self, session: SparkSession, checkpoint: str, files: Files, roots: Sequence[str]) -> None:
        jvm: Any = session._jvm
        local = [place.path for root in roots if (place := place_of(root)) is not None and place.is_local]
        real = [str(Path(path).resolve()) for path in local]
        self.java = jvm.io.penstock.tables.TableVersions(session._jsparkSession, checkpoint, real)
        self._session = session
        self._checkpoint = checkpoint
        self._number, self._notes = _notes_of_pending(checkpoint, files)

    def frame(self, name: str, table: Table, path: str, checked: DataFrame) -> DataFrame:
        """The table `name` at `path`: in the version of the batch that is to be repeated, then in newer ones.

        `checked`: the frame of what is there now. Raises BrokenTask when that version cannot be read any more.
        """
        note, millis = _note_of(self._notes.get(name), table, path), round((table.refresh_seconds or 0) * 1000)
        try:
            if table.format == "delta":
                rows = self.java.delta(name, path, millis, note)
            else:
                options = reader_options(table, mode_of(table))
                schema = checked.schema.json()
                rows = self.java.files(name, path, table.format, schema, options, millis, note)
        except (PySparkException, Py4JJavaError) as error:
            if note is None:
                raise
            file = f"{self._checkpoint}/{FOLDER}/{self._number}"
            hint = f"Bring it back; or delete {file}, then the batch reads what is now there of all tables of the job"
            told = f"the batch that has begun cannot read the version that it began with: {reason_of(error)}. {hint}"
            raise BrokenTask(f"tables.{name}.path: {told}", rule="table_version") from error
        return DataFrame(rows, self._session)


def read_tables(
    session: SparkSession, config: JobConfig, roots: Sequence[str], versions: TableVersions | None
) -> dict[str, DataFrame]:
    """The frames of a job's tables, which refresh where `versions` says so. Raises what `read_table` raises."""
    frames = {}
    for name, table in config.tables.items():
        frame = read_table(session, name, table, config.args, roots)
        if versions is not None and refreshes(table):
            frame = versions.frame(name, table, substitute(table.path, config.args), frame)
        frames[name] = frame
    return frames


def _note_of(note: str | None, table: Table, path: str) -> str | None:
    """The note unless it is of another table, which the job had before under this name."""
    if note is None:
        return None
    found = json.loads(note)
    return note if found["path"] == path and ("version" in found) == (table.format == "delta") else None


def _notes_of_pending(checkpoint: str, files: Files) -> tuple[int | None, Mapping[str, str]]:
    """The notes for the batch that is planned but not committed, by table, and the batch that they begin with."""
    pending = last_offset(checkpoint, files)
    if pending is None or is_clean(checkpoint, files):
        return None, {}
    known = [number for number in numbers(f"{checkpoint}/{FOLDER}", files) if number <= pending]
    if not known:
        # Planned by a release that noted nothing.
        return None, {}
    return max(known), json.loads(files.read(f"{checkpoint}/{FOLDER}/{max(known)}"))
