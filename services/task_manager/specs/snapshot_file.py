"""The specs on disk, in an SQLite file: a row for each job. A change costs only the rows that differ."""

from __future__ import annotations

import sqlite3
from functools import cached_property
from pathlib import Path

from pydantic import ValidationError

from penstock.control.logs import logger
from penstock.tasks.spec import TaskTemplate
from penstock.wire.cluster import Snapshot
from services.task_manager.specs.spec_cache import SpecCache

log = logger(__name__)
_TABLES = """
    PRAGMA journal_mode = WAL;
    CREATE TABLE IF NOT EXISTS facts (commit_number INTEGER NOT NULL, shard_count INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS templates (job TEXT PRIMARY KEY, template TEXT NOT NULL);
"""


class SnapshotFile:
    """Used by one thread at a time. The first write of a process replaces everything."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "specs.db"
        self._written: SpecCache | None = None

    def load(self) -> Snapshot | None:
        """The stored specs as a full snapshot; None when no readable ones are stored."""
        try:
            facts = self._store.execute("SELECT commit_number, shard_count FROM facts").fetchone()
            rows = self._store.execute("SELECT template FROM templates").fetchall()
            templates = tuple(TaskTemplate.model_validate_json(text) for (text,) in rows)
        except (sqlite3.Error, OSError, ValidationError) as error:
            self._failed("load", error)
            return None
        if facts is None:
            return None
        return Snapshot(full=True, commit_number=facts[0], shard_count=facts[1], templates=templates)

    def save(self, specs: SpecCache) -> None:
        """Stores the specs, all of them or none. A failure is only logged: what runs does not depend on the disk."""
        before = {} if self._written is None else self._written.jobs
        changed = {name: job.template for name, job in specs.jobs.items()}
        changed = {
            name: each for name, each in changed.items() if name not in before or before[name].template is not each
        }
        try:
            with self._store as store:
                if self._written is None:
                    store.execute("DELETE FROM templates")
                gone = [(name,) for name in before.keys() - specs.jobs.keys()]
                store.executemany("DELETE FROM templates WHERE job = ?", gone)
                rows = ((name, template.model_dump_json()) for name, template in changed.items())
                store.executemany("INSERT OR REPLACE INTO templates VALUES (?, ?)", rows)
                store.execute("DELETE FROM facts")
                store.execute("INSERT INTO facts VALUES (?, ?)", (specs.commit_number, specs.sharding.count))
        except (sqlite3.Error, OSError) as error:
            self._failed("save", error)
        else:
            self._written = specs

    @cached_property
    def _store(self) -> sqlite3.Connection:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        store = sqlite3.connect(self._path, check_same_thread=False)
        store.executescript(_TABLES)
        return store

    def _failed(self, what: str, error: Exception) -> None:
        """A file that is damaged is removed, so that the next write begins a new one."""
        log.error("stored specs failed", call=what, path=str(self._path), error=str(error))
        self._written = None
        if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
            vars(self).pop("_store", None)
            for path in self._path.parent.glob(f"{self._path.name}*"):
                path.unlink()
