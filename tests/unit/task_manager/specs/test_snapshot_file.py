"""The stored specs: what a later process reads, wherever the last one's writes ended."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest

from penstock.wire.cluster import Snapshot
from services.task_manager.specs.snapshot_file import SnapshotFile
from services.task_manager.specs.spec_cache import SpecCache, updated
from tests.support.task_manager.world import SHARDS, template


def full(commit_number: int, *jobs: str) -> Snapshot:
    templates = tuple(template(job, revision=commit_number) for job in jobs)
    return Snapshot(
        full=True,
        commit_number=commit_number,
        shard_count=SHARDS,
        templates=templates,
        store="one",
        digest=1,
        row_digests=tuple(int.from_bytes(sha256(job.encode()).digest()[:16]) for job in jobs),
    )


def delta(commit_number: int, *jobs: str, removed: tuple[str, ...] = ()) -> Snapshot:
    return full(commit_number, *jobs).model_copy(update={"full": False, "removed": removed})


def written(folder: Path, *snapshots: Snapshot, file: SnapshotFile | None = None) -> SpecCache:
    """What a life that took these snapshots knows, and has stored after each of them."""
    specs, file = None, file or SnapshotFile(folder)
    for each in snapshots:
        specs = updated(specs, each)
        file.save(specs)
    assert specs is not None
    return specs


def stored(folder: Path) -> SpecCache | None:
    snapshot = SnapshotFile(folder).load()
    return snapshot and updated(None, snapshot)


def test_a_later_life_reads_what_the_last_one_knew(tmp_path: Path) -> None:
    assert stored(tmp_path) is None
    deltas = (delta(2, "b", "c"), delta(3, removed=("a",)), delta(5, "a", "c"))
    specs = written(tmp_path, full(1, "a", "b"), *deltas)
    assert stored(tmp_path) == specs
    stopped = template("a", revision=6, desired_state="stopped")
    specs = written(tmp_path, full(6).model_copy(update={"templates": (stopped,)}))
    assert stored(tmp_path) == specs


def test_a_change_costs_the_rows_that_differ(tmp_path: Path) -> None:
    file = SnapshotFile(tmp_path)
    specs = written(tmp_path, full(1, *map(str, range(100))), file=file)
    before = file._store.total_changes
    file.save(updated(specs, delta(2, "7", removed=("8",))))
    assert file._store.total_changes - before == 4


def test_a_life_begins_with_a_whole_snapshot(tmp_path: Path) -> None:
    """Whatever the file has of a life in between."""
    specs = written(tmp_path, full(1, "a", "b"))
    written(tmp_path, full(2, "c"))
    later = updated(specs, delta(3, "b"))
    SnapshotFile(tmp_path).save(later)
    assert stored(tmp_path) == later


def test_a_write_that_fails_leaves_what_was_stored_and_the_next_one_is_whole(tmp_path: Path) -> None:
    """1. Another holds the file: nothing is written. 2. It lets go: the next write has all that changed since."""
    file = SnapshotFile(tmp_path)
    specs = written(tmp_path, full(1, "a"), file=file)
    with closing(sqlite3.connect(tmp_path / "specs.db")) as other:
        other.execute("BEGIN IMMEDIATE")
        file._store.execute("PRAGMA busy_timeout = 0")
        second = updated(specs, delta(2, "b"))
        file.save(second)
        assert stored(tmp_path) == specs
    third = updated(second, delta(3, "c"))
    file.save(third)
    assert stored(tmp_path) == third


@pytest.mark.parametrize("content", [b"x" * 9000, b"SQLite format 3\0" + b"x" * 9000])
def test_damaged_specs_are_none_and_are_replaced(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "specs.db").write_bytes(content)
    file = SnapshotFile(tmp_path)
    assert file.load() is None
    assert stored(tmp_path) is None
    specs = written(tmp_path, full(1, "a"), file=file)
    assert stored(tmp_path) == specs


def test_damage_within_the_file_is_found_and_mended(tmp_path: Path) -> None:
    written(tmp_path, full(1, *map(str, range(100))))
    path = tmp_path / "specs.db"
    assert path.stat().st_size > 40_000 or list(tmp_path.glob("specs.db-wal"))
    with closing(sqlite3.connect(path)) as store:
        store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))
    file = SnapshotFile(tmp_path)
    assert file.load() is None
    specs = written(tmp_path, full(2, "a"), file=file)
    assert stored(tmp_path) == specs


def test_a_template_that_cannot_be_read_makes_all_none(tmp_path: Path) -> None:
    written(tmp_path, full(1, "a", "b"))
    with closing(sqlite3.connect(tmp_path / "specs.db")) as store, store:
        store.execute("UPDATE templates SET template = '{}' WHERE job = 'a'")
    assert stored(tmp_path) is None


def test_a_disk_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    file = SnapshotFile(tmp_path / "file" / "below")
    written(tmp_path, full(1, "a"), file=file)
    assert file.load() is None


def test_a_write_after_another_process_wrote_is_whole(tmp_path: Path) -> None:
    """The last life is still ending when the next one has begun: 1. late, it writes older specs. 2. The next writes."""
    last, coming = SnapshotFile(tmp_path), SnapshotFile(tmp_path)
    specs = written(tmp_path, full(1, "a", "b"), file=last)
    newer = written(tmp_path, full(1, "a", "b"), delta(3, "a"), file=coming)
    last.save(updated(specs, delta(2, "a", "c")))
    newest = updated(newer, delta(4, "b"))
    coming.save(newest)
    assert stored(tmp_path) == newest


def test_facts_that_are_no_numbers_are_none(tmp_path: Path) -> None:
    written(tmp_path, full(1, "a"))
    with closing(sqlite3.connect(tmp_path / "specs.db")) as store, store:
        store.execute("UPDATE facts SET commit_number = 'x'")
    assert stored(tmp_path) is None


def test_a_file_damaged_while_it_is_in_use_is_replaced_by_the_same_write(tmp_path: Path) -> None:
    file = SnapshotFile(tmp_path)
    specs = written(tmp_path, full(1, *map(str, range(100))), file=file)
    file._store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with (tmp_path / "specs.db").open("r+b") as damaged:
        size = damaged.seek(0, 2)
        damaged.seek(0)
        damaged.write(b"\xff" * size)
    file._store.execute("PRAGMA shrink_memory")
    later = updated(specs, delta(2, "7"))
    file.save(later)
    assert stored(tmp_path) == later


def test_a_damaged_file_that_cannot_be_removed_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unlink(path: Path) -> None:
        raise PermissionError(path)

    (tmp_path / "specs.db").write_bytes(b"x" * 9000)
    monkeypatch.setattr(Path, "unlink", unlink)
    file = SnapshotFile(tmp_path)
    assert file.load() is None
    written(tmp_path, full(1, "a"), file=file)


@pytest.mark.parametrize("version", [0, 1, 3])
def test_a_file_of_another_version_is_none_and_is_replaced(tmp_path: Path, version: int) -> None:
    """Whether its tables fit or not."""
    written(tmp_path, full(1, "a", "b"))
    with closing(sqlite3.connect(tmp_path / "specs.db")) as store:
        store.execute("DROP TABLE facts")
        store.execute("CREATE TABLE facts (commit_number INTEGER NOT NULL)")
        store.execute(f"PRAGMA user_version = {version}")
    file = SnapshotFile(tmp_path)
    assert file.load() is None
    specs = written(tmp_path, full(2, "c"), file=file)
    assert stored(tmp_path) == specs


RELEASED = """
    CREATE TABLE IF NOT EXISTS facts (commit_number INTEGER NOT NULL, shard_count INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS templates (job TEXT PRIMARY KEY, template TEXT NOT NULL);
"""


def version_of(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "specs.db")) as store:
        found: int = store.execute("PRAGMA user_version").fetchone()[0]
    return found


@pytest.mark.parametrize("version", [0, 1])
def test_a_file_of_an_older_release_is_read_and_gets_this_version(tmp_path: Path, version: int) -> None:
    """It says neither its store nor digests: the first answer with a digest shows that all is to be fetched."""
    with closing(sqlite3.connect(tmp_path / "specs.db")) as store, store:
        store.executescript(RELEASED)
        store.execute("INSERT INTO facts VALUES (1, ?)", (SHARDS,))
        store.execute(f"PRAGMA user_version = {version}")
        rows = [(job, template(job, revision=1).model_dump_json()) for job in "ab"]
        store.executemany("INSERT INTO templates VALUES (?, ?)", rows)
    known = stored(tmp_path)
    assert known == updated(None, full(1, "a", "b").model_copy(update={"row_digests": (), "store": ""}))
    assert known is not None
    assert not updated(known, delta(1)).is_proven()
    specs = written(tmp_path, full(2, "a", "c"))
    assert (stored(tmp_path), version_of(tmp_path)) == (specs, 2)


def test_a_file_that_cannot_be_read_stays_until_there_is_something_to_write(tmp_path: Path) -> None:
    """1. A newer release wrote it; this one reads nothing. 2. The newer one is back and finds it. 3. Files beside it
    that are not SQLite's stay in any case."""
    specs = written(tmp_path, full(1, "a", "b"))
    for version in (3, 2):
        with closing(sqlite3.connect(tmp_path / "specs.db")) as store:
            store.execute(f"PRAGMA user_version = {version}")
        assert stored(tmp_path) == (specs if version == 2 else None)
    (tmp_path / "specs.db").write_bytes(b"x" * 9000)
    (tmp_path / "specs.db.bak").write_text("kept")
    specs = written(tmp_path, full(2, "c"))
    assert stored(tmp_path) == specs
    assert (tmp_path / "specs.db.bak").read_text() == "kept"


def test_a_file_that_is_replaced_during_a_write_is_written_whole_by_the_next(tmp_path: Path) -> None:
    """1. While a write goes on, the file is deleted and another process makes a new one. 2. The next write is stored,
    with all that the new file lacks."""
    file = SnapshotFile(tmp_path)
    specs = written(tmp_path, full(1, "a", "b"), file=file)

    def replace(statement: str) -> None:
        if statement.startswith("INSERT INTO facts"):
            file._store.set_trace_callback(None)
            for path in tmp_path.glob("specs.db*"):
                path.unlink()
            written(tmp_path, full(1, "old"))

    file._store.set_trace_callback(replace)
    specs = updated(specs, delta(2, "b"))
    file.save(specs)
    assert stored(tmp_path) == updated(None, full(1, "old"))
    specs = updated(specs, delta(3, "c"))
    file.save(specs)
    assert stored(tmp_path) == specs


@pytest.mark.parametrize("deleted", ["specs.db*", "specs.db", "specs.db-wal"])
def test_a_file_that_somebody_deleted_is_written_anew(tmp_path: Path, deleted: str) -> None:
    """1. It is deleted while it is open. 2. The next change is stored with all that did not change."""
    file = SnapshotFile(tmp_path)
    specs = written(tmp_path, full(1, "a", "b"), file=file)
    for path in tmp_path.glob(deleted):
        path.unlink()
    specs = updated(specs, delta(2, "b", "c"))
    file.save(specs)
    assert stored(tmp_path) == specs


def test_a_file_that_was_deleted_before_the_first_write_is_written_anew(tmp_path: Path) -> None:
    written(tmp_path, full(1, "a"))
    file = SnapshotFile(tmp_path)
    assert file.load() is not None
    for path in tmp_path.glob("specs.db*"):
        path.unlink()
    specs = written(tmp_path, full(2, "b"), file=file)
    assert stored(tmp_path) == specs


def test_a_file_that_was_cut_anywhere_gives_what_was_stored_once_or_nothing(tmp_path: Path) -> None:
    """As by `kill -9`, or the end of the machine's power, in the middle of any write: of the log, before it is taken
    into the file, and of the file. The next write makes it whole again."""
    folder, specs, known = tmp_path / "whole", None, []
    folder.mkdir()
    file = SnapshotFile(folder)
    for number in range(1, 9):
        specs = updated(specs, delta(number, f"job-{number}", "a") if number > 1 else full(1, "a", "b"))
        file.save(specs)
        known.append(specs)
    contents = {path.name: path.read_bytes() for path in folder.glob("specs.db*")}
    assert len(contents["specs.db-wal"]) > 20_000
    found = set()
    for name in ("specs.db-wal", "specs.db"):
        for size in range(0, len(contents[name]), 997):
            cut = tmp_path / f"{name}-{size}"
            cut.mkdir()
            for each in ("specs.db", "specs.db-wal"):
                (cut / each).write_bytes(contents[each][:size] if each == name else contents[each])
            read = stored(cut)
            assert read is None or read in known
            found.add(None if read is None else read.commit_number)
            again = written(cut, full(9, "z"))
            assert stored(cut) == again
    assert {1, 4, 7} <= found
