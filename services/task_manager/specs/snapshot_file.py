"""The specs on disk: a full snapshot and a journal of the deltas after it.

A delta costs one line, however large the cell is. Once the journal is as long as the snapshot, a new snapshot replaces
both. The journal's name has the snapshot's digest, so that it belongs to one snapshot. A crash between two writes
leaves either the old pair or the new snapshot alone. A line that was cut short ends the journal.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path

from pydantic import ValidationError

from penstock.control.logs import logger
from penstock.wire.cluster import Snapshot
from services.task_manager.specs.files import write_file

log = logger(__name__)
LONG_JOURNAL_BYTES = 1 << 20
"""A journal may grow to this length even if the snapshot is smaller."""


class SnapshotFile:
    """Written by one thread. The first write of a process is full: the last process may have died writing."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "snapshot.json"
        self._journal: Path | None = None
        self._room_bytes = 0

    def load(self) -> Snapshot | None:
        """The stored snapshot with its deltas applied; None when no readable one is stored."""
        try:
            text = self._path.read_bytes()
            stored = Snapshot.model_validate_json(text)
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            log.error("stored snapshot cannot be read", path=str(self._path), error=str(error))
            return None
        return with_deltas(stored, _deltas(self._journal_of(text)))

    def save(self, snapshot: Snapshot) -> None:
        """Replaces the stored snapshot and its journal."""
        text = snapshot.model_dump_json().encode()
        self._journal = None
        if write_file(self._path, text):
            self._journal = self._journal_of(text)
            self._room_bytes = max(len(text), LONG_JOURNAL_BYTES)
            self._delete_journals()

    def append(self, delta: Snapshot) -> bool:
        """Appends a delta to the journal. False: the caller must save a full snapshot instead."""
        line = delta.model_dump_json().encode() + b"\n"
        if self._journal is None or len(line) > self._room_bytes:
            return False
        self._room_bytes -= len(line)
        try:
            with self._journal.open("ab") as stream:
                stream.write(line)
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            log.error("file not written", path=str(self._journal), error=str(error))
            self._journal = None
            return False
        return True

    def _delete_journals(self) -> None:
        try:
            for journal in self._path.parent.glob("snapshot-*.journal"):
                journal.unlink()
        except OSError as error:
            log.error("journal not removed", error=str(error))

    def _journal_of(self, text: bytes) -> Path:
        return self._path.with_name(f"snapshot-{blake2b(text, digest_size=8).hexdigest()}.journal")


def _deltas(journal: Path) -> Iterator[Snapshot]:
    try:
        lines = journal.read_bytes().split(b"\n")
    except FileNotFoundError:
        return
    except OSError as error:
        log.error("journal cannot be read", path=str(journal), error=str(error))
        return
    for number, line in enumerate(lines[:-1]):
        try:
            yield Snapshot.model_validate_json(line)
        except ValidationError as error:
            log.error("journal cannot be read", path=str(journal), line=number, error=str(error))
            return


def with_deltas(stored: Snapshot, deltas: Iterable[Snapshot]) -> Snapshot:
    """A full snapshot with deltas applied in order."""
    templates = {template.job: template for template in stored.templates}
    newest = stored
    for delta in deltas:
        newest = delta
        templates.update((template.job, template) for template in delta.templates)
        for job in delta.removed:
            templates.pop(job, None)
    return Snapshot(
        full=True,
        commit_number=newest.commit_number,
        shard_count=newest.shard_count,
        templates=tuple(templates.values()),
    )
