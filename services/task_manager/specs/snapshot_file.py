"""The specs on disk, in an SQLite file: a row for each job. A change costs only the rows that differ."""

from __future__ import annotations

import sqlite3
from functools import cached_property
from pathlib import Path

from penstock.control.logs import logger
from penstock.control.private import keep_private
from penstock.tasks.spec import TaskTemplate
from penstock.wire.cluster import Snapshot
from services.task_manager.specs.spec_cache import SpecCache

log = logger(__name__)
_VERSION = 2
"""Of the tables: to be raised when they change."""
_PRAGMAS = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
_FORMER_TABLES = (
    "CREATE TABLE facts (commit_number INTEGER NOT NULL, shard_count INTEGER NOT NULL)",
    "CREATE TABLE templates (job TEXT PRIMARY KEY, template TEXT NOT NULL)",
)
_TABLES = (
    "CREATE TABLE facts (commit_number INTEGER NOT NULL, shard_count INTEGER NOT NULL, store TEXT NOT NULL DEFAULT '')",
    "CREATE TABLE templates (job TEXT PRIMARY KEY, template TEXT NOT NULL, digest TEXT NOT NULL DEFAULT '0')",
)
_UPGRADE = (
    "BEGIN IMMEDIATE; ALTER TABLE facts ADD COLUMN store TEXT NOT NULL DEFAULT '';"
    f" ALTER TABLE templates ADD COLUMN digest TEXT NOT NULL DEFAULT '0'; PRAGMA user_version = {_VERSION}; COMMIT"
)
_CREATE = "; ".join(("BEGIN IMMEDIATE", *_TABLES, f"PRAGMA user_version = {_VERSION}", "COMMIT"))


class SnapshotFile:
    """The stored specs. Used by one thread at a time.

    A write stores only what changed. The first write of a process is whole, as is one after somebody else wrote or
    deleted the file. A file of another version counts as a damaged one: it is not read, and the next write replaces it.
    Files of versions 0 and 1, of older releases, are brought to this one: they lack the store and the digests.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "specs.db"
        self._written: SpecCache | None = None
        self._data_version = 0
        self._inodes: list[int] = []
        self._is_damaged = False

    def load(self) -> Snapshot | None:
        """The stored specs as a full snapshot; None when no readable ones are stored."""
        try:
            facts = self._store.execute("SELECT commit_number, shard_count, store FROM facts").fetchone()
            rows = self._store.execute("SELECT template, digest FROM templates").fetchall()
            if facts is None:
                return None
            return Snapshot(
                full=True,
                commit_number=facts[0],
                shard_count=facts[1],
                store=facts[2],
                templates=tuple(TaskTemplate.model_validate_json(text) for text, _ in rows),
                row_digests=tuple(digest for _, digest in rows),
            )
        except (sqlite3.Error, OSError, ValueError) as error:
            self._failed("load", error)
            return None

    def save(self, specs: SpecCache) -> None:
        """Stores the specs, all of them or none. A failure is only logged: what runs does not depend on the disk."""
        for _ in range(2):  # once more if the file turns out to be damaged
            try:
                if self._written is None or self._present_inodes() != self._inodes:
                    self._close()  # it may be open and deleted
                if self._is_damaged:
                    self._remove()
                self._write(specs)
                return
            except (sqlite3.Error, OSError) as error:
                self._failed("save", error)
                if not self._is_damaged:
                    return

    def _write(self, specs: SpecCache) -> None:
        with self._store as store:
            store.execute("BEGIN IMMEDIATE")
            (version,) = store.execute("PRAGMA data_version").fetchone()
            known = self._written if version == self._data_version else None
            before = {} if known is None else known.jobs
            if known is None:
                store.execute("DELETE FROM templates")
                store.execute(f"PRAGMA user_version = {_VERSION}")
            gone = [(name,) for name in before.keys() - specs.jobs.keys()]
            store.executemany("DELETE FROM templates WHERE job = ?", gone)
            rows = (
                (name, job.template.model_dump_json(), f"{job.digest:032x}")
                for name, job in specs.jobs.items()
                if job is not (old := before.get(name)) and (old is None or old.template is not job.template)
            )
            store.executemany("INSERT OR REPLACE INTO templates VALUES (?, ?, ?)", rows)
            store.execute("DELETE FROM facts")
            facts = (specs.commit_number, specs.sharding.count, specs.store)
            store.execute("INSERT INTO facts VALUES (?, ?, ?)", facts)
        self._written, self._data_version = specs, version

    def _present_inodes(self) -> list[int]:
        """Of the file and of those that SQLite keeps beside it. None is used again while the file is open."""
        return [path.stat().st_ino for path in self._files()]

    def _files(self) -> list[Path]:
        files = (self._path.with_name(self._path.name + end) for end in ("", "-wal", "-shm", "-journal"))
        return [path for path in files if path.exists()]

    @cached_property
    def _store(self) -> sqlite3.Connection:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        keep_private(self._path)  # what SQLite keeps beside it has its mode
        store = sqlite3.connect(self._path, check_same_thread=False)
        try:
            store.executescript(_PRAGMAS)
            (version,) = store.execute("PRAGMA user_version").fetchone()
            tables = store.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name").fetchall()
            if not tables:
                store.executescript(_CREATE)
            elif version in (0, 1) and tables == [(table,) for table in _FORMER_TABLES]:
                store.executescript(_UPGRADE)
            elif version != _VERSION:
                raise sqlite3.DatabaseError(f"the file has version {version}, not {_VERSION}")
        except BaseException:
            store.close()
            raise
        self._inodes = self._present_inodes()
        return store

    def _close(self) -> None:
        self._written = None
        store = vars(self).pop("_store", None)
        if store is not None:
            store.close()

    def _remove(self) -> None:
        for path in self._files():
            path.unlink()
        self._is_damaged = False

    def _failed(self, what: str, error: Exception) -> None:
        """A file that is damaged stays until there is something to write."""
        log.error("stored specs failed", call=what, path=str(self._path), error=str(error))
        self._written = None
        self._is_damaged |= isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError)
