"""Tables of a task that refresh: each batch reads one version, and a batch that is repeated reads it again.

The JVM looks for newer versions before it plans a batch (`io.penstock.tables.TableVersions`). It notes them in the file
`<checkpoint>/tables/<batch>-<token>`, which counts until the next one of this owner. Each owner notes before its first
plan. So the notes of the newest owner are those of the newest plan, whatever an earlier owner writes late.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock.config.model import JobConfig, Table
from penstock.config.paths import place_of
from penstock.control.errors import BrokenTask
from penstock.spark.checkpoint import is_clean, last_offset
from penstock.spark.failures import reason_of
from penstock.spark.fence import Token
from penstock.spark.files import Files
from penstock.spark.tables import mode_of, read_table, reader_options, substitute

FOLDER = "tables"
_NOTE = re.compile(r"([0-9]+)(?:-([0-9]+)\.([0-9]+))?")


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
        self._note, self._notes = _notes_of_pending(checkpoint, files)

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
            file = f"{self._checkpoint}/{FOLDER}/{self._note}"
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


def _notes_of_pending(checkpoint: str, files: Files) -> tuple[str | None, Mapping[str, str]]:
    """The notes for the batch that is planned but not committed, by table, and the name of their file."""
    pending = last_offset(checkpoint, files)
    if pending is None or is_clean(checkpoint, files):
        return None, {}
    newest = newest_note(files.names(f"{checkpoint}/{FOLDER}"), pending)
    if newest is None:
        # Planned by a release that noted nothing.
        return None, {}
    return newest, json.loads(files.read(f"{checkpoint}/{FOLDER}/{newest}"))


def newest_note(names: Iterable[str], pending: int) -> str | None:
    """The name of the note that counts for the planned batch `pending`: of the newest owner, the last one that begins
    with it or before; None without any. Names as `io.penstock.tables.NoteName` has them; of an earlier release without
    an owner. Pure."""
    known = [(match, name) for name in names if (match := _NOTE.fullmatch(name)) is not None]
    begun = [(Token(int(match[2] or 0), int(match[3] or 0)), int(match[1]), name) for match, name in known]
    return max((note for note in begun if note[1] <= pending), default=(None, None, None))[2]
