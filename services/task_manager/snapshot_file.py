"""The newest catalog on disk: a full snapshot, and a journal of the deltas since.

A delta costs a line, however large the cell is; once the journal is as long as the snapshot both are replaced by a new
snapshot. A journal belongs to one snapshot, by its digest in the name, so a crash between two writes leaves either the
old pair or the new snapshot alone. A line that was cut short ends the journal.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path

from pydantic import ValidationError

from penstock.control.logs import logger
from penstock.wire.cluster import Snapshot
from services.task_manager.disk import write_file

log = logger(__name__)
LONG_JOURNAL_BYTES = 1 << 20
"""A journal may always become so long, however small the snapshot is."""


class SnapshotFile:
    """Written by one thread. The first write of a life is a full one: it is not known how the last one's ended."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "snapshot.json"
        self._journal: Path | None = None
        self._room_bytes = 0

    def load(self) -> Snapshot | None:
        """The stored snapshot with the deltas after it; None when there is none that can be read."""
        try:
            text = self._path.read_bytes()
            stored = Snapshot.model_validate_json(text)
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            log.error("stored snapshot cannot be read", path=str(self._path), error=str(error))
            return None
        return after(stored, _deltas(self._journal_of(text)))

    def save(self, snapshot: Snapshot) -> None:
        """Replaces all that is stored."""
        text = snapshot.model_dump_json().encode()
        self._journal = None
        if write_file(self._path, text):
            self._journal = self._journal_of(text)
            self._room_bytes = max(len(text), LONG_JOURNAL_BYTES)
            self._forget_journals()

    def append(self, delta: Snapshot) -> bool:
        """Adds what came after all that is stored; False when it has to be saved as a whole."""
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
            log.error("not written", path=str(self._journal), error=str(error))
            self._journal = None
            return False
        return True

    def _forget_journals(self) -> None:
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


def after(stored: Snapshot, deltas: Iterable[Snapshot]) -> Snapshot:
    """A full snapshot with the deltas that came after it, in order."""
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
