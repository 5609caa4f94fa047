"""What survives a restart of the Task Manager: the name of its last life, and how files are replaced.

Everything is written to a new file that then takes the old one's name, so a reader sees all of it or none. A disk
that cannot be written is logged and no more: what runs does not depend on it.
"""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import BaseModel, ValidationError

from penstock.control.logs import logger

log = logger(__name__)


class LivesRecord(BaseModel):
    """The last life that had a lease, and the last one that asked for one."""

    granted: str | None = None
    asked: str | None = None


class Lives:
    """The incarnations by which the store may know this container. Used by one thread."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "lives.json"
        self._record = self._load()
        self._formers = tuple(name for name in (self._record.asked, self._record.granted) if name)

    def formers(self) -> tuple[str, ...]:
        """Former lives whose place another may take, likeliest first."""
        return tuple(dict.fromkeys(self._formers))

    def asks(self, incarnation: str) -> None:
        """This life is about to ask for a lease."""
        if incarnation != self._record.asked:
            self._store(LivesRecord(granted=self._record.granted, asked=incarnation))

    def granted(self, incarnation: str) -> None:
        """This life has a lease, so the store knows it and no former one."""
        self._formers = (incarnation,)
        if incarnation != self._record.granted:
            self._store(LivesRecord(granted=incarnation, asked=incarnation))

    def _store(self, record: LivesRecord) -> None:
        self._record = record
        write_file(self._path, record.model_dump_json().encode())

    def _load(self) -> LivesRecord:
        try:
            return LivesRecord.model_validate_json(self._path.read_bytes())
        except FileNotFoundError:
            return LivesRecord()
        except (OSError, ValidationError) as error:
            log.error("record of lives cannot be read", path=str(self._path), error=str(error))
            return LivesRecord()


def write_file(path: Path, text: bytes) -> bool:
    """Replaces a file, or logs why not; whether it did."""
    fresh = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with fresh.open("wb") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        fresh.replace(path)
    except OSError as error:
        log.error("not written", path=str(path), error=str(error))
        return False
    return True
