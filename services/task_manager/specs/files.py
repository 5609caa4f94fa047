"""The container's incarnations, in a file that survives a restart of the Task Manager."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import BaseModel, ValidationError

from penstock.control.logs import logger
from penstock.control.private import open_private

log = logger(__name__)


class Incarnations(BaseModel):
    """The last incarnation that was granted a lease, and the last one that asked for a lease."""

    granted: str | None = None
    asked: str | None = None


class IncarnationFile:
    """Remembers on disk which incarnations the store may still have for this container. Used by one thread."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "lives.json"
        self._stored = self._load()
        self._former = self._known()

    def former(self) -> tuple[str, ...]:
        """Former incarnations that the next one may replace, the likeliest first."""
        return tuple(dict.fromkeys(self._former))

    def asking(self, incarnation: str) -> None:
        """This incarnation is about to ask for a lease."""
        if incarnation != self._stored.asked:
            self._store(Incarnations(granted=self._stored.granted, asked=incarnation))

    def granted(self, incarnation: str) -> None:
        """This incarnation has a lease, so the store knows no former one."""
        self._former = (incarnation,)
        if incarnation != self._stored.granted:
            self._store(Incarnations(granted=incarnation, asked=incarnation))

    def _known(self) -> tuple[str, ...]:
        return tuple(name for name in (self._stored.asked, self._stored.granted) if name)

    def _store(self, incarnations: Incarnations) -> None:
        """Replaces the file by renaming. A failed write is only logged: what runs does not depend on the disk."""
        self._stored = incarnations
        fresh = self._path.with_name(f".{self._path.name}.new")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with open(fresh, "wb", opener=open_private) as stream:
                stream.write(incarnations.model_dump_json().encode())
                stream.flush()
                os.fsync(stream.fileno())
            fresh.replace(self._path)
        except OSError as error:
            log.error("file not written", path=str(self._path), error=str(error))

    def _load(self) -> Incarnations:
        try:
            return Incarnations.model_validate_json(self._path.read_bytes())
        except FileNotFoundError:
            return Incarnations()
        except (OSError, ValidationError) as error:
            log.error("incarnation file cannot be read", path=str(self._path), error=str(error))
            return Incarnations()
