"""The stored snapshot and its journal: what a later process reads, wherever the last one's writes ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.wire.cluster import Snapshot
from services.task_manager.specs import snapshot_file
from services.task_manager.specs.snapshot_file import SnapshotFile
from services.task_manager.specs.spec_cache import updated
from tests.support.task_manager import SHARDS, template


def full(commit_number: int, *jobs: str) -> Snapshot:
    templates = tuple(template(job, revision=commit_number) for job in jobs)
    return Snapshot(full=True, commit_number=commit_number, shard_count=SHARDS, templates=templates)


def delta(commit_number: int, *jobs: str, removed: tuple[str, ...] = ()) -> Snapshot:
    return full(commit_number, *jobs).model_copy(update={"full": False, "removed": removed})


def journal(folder: Path) -> Path:
    (found,) = folder.glob("*.journal")
    return found


def stored(folder: Path) -> tuple[int, dict[str, int]]:
    """The stored commit number, and that of each job."""
    snapshot = SnapshotFile(folder).load()
    assert snapshot is not None
    assert snapshot.full
    return snapshot.commit_number, {each.job: each.commit_number for each in snapshot.templates}


def test_a_later_life_reads_the_snapshot_and_all_deltas(tmp_path: Path) -> None:
    """Like the catalog of the life that wrote them."""
    file = SnapshotFile(tmp_path)
    file.save(full(1, "a", "b"))
    deltas = [delta(2, "b", "c"), delta(3, removed=("a",)), delta(5, "a", "c")]
    catalog = updated(None, full(1, "a", "b"))
    for each in deltas:
        assert file.append(each)
        catalog = updated(catalog, each)
    assert stored(tmp_path) == (5, {"a": 5, "b": 2, "c": 5})
    loaded = SnapshotFile(tmp_path).load()
    assert loaded is not None
    assert updated(None, loaded) == catalog


def test_a_crash_within_a_line_loses_that_line(tmp_path: Path) -> None:
    """Wherever it was cut: the lines before it are there."""
    file = SnapshotFile(tmp_path)
    file.save(full(1, "a"))
    file.append(delta(2, "b"))
    whole = journal(tmp_path).read_bytes()
    file.append(delta(3, "c"))
    both = journal(tmp_path).read_bytes()
    for size in range(len(whole), len(both)):
        journal(tmp_path).write_bytes(both[:size])
        assert stored(tmp_path)[0] == 2
    journal(tmp_path).write_bytes(whole[:-5] + b"\n" + both[len(whole) :])
    assert stored(tmp_path)[0] == 1


def test_the_journal_of_another_snapshot_is_not_read(tmp_path: Path) -> None:
    """1. A snapshot and a delta. 2. A new snapshot, and a crash before the old journal was removed."""
    file = SnapshotFile(tmp_path)
    file.save(full(1, "a"))
    file.append(delta(2, "b"))
    old = journal(tmp_path)
    text = old.read_bytes()
    file.save(full(1, "c"))
    old.write_bytes(text)
    assert stored(tmp_path) == (1, {"c": 1})
    file.save(full(4, "d"))
    assert list(tmp_path.glob("*.journal")) == []


def test_a_life_begins_with_a_whole_snapshot(tmp_path: Path) -> None:
    SnapshotFile(tmp_path).save(full(1, "a"))
    assert not SnapshotFile(tmp_path).append(delta(2, "b"))


def test_a_long_journal_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it is as long as the snapshot; until then each delta costs a line."""
    file = SnapshotFile(tmp_path)
    monkeypatch.setattr(snapshot_file, "LONG_JOURNAL_BYTES", 0)
    file.save(full(1, *map(str, range(10))))
    size = (tmp_path / "snapshot.json").stat().st_size
    count = 0
    while file.append(delta(2 + count, "0")):
        count += 1
    assert count >= 8
    assert journal(tmp_path).stat().st_size <= size


def test_a_journal_that_cannot_be_written_asks_for_a_whole_snapshot(tmp_path: Path) -> None:
    file = SnapshotFile(tmp_path)
    file.save(full(1, "a"))
    file.append(delta(2, "b"))
    in_the_way = journal(tmp_path)
    in_the_way.unlink()
    in_the_way.mkdir()
    assert not file.append(delta(3, "c"))
    in_the_way.rmdir()
    assert not file.append(delta(4, "d"))
    assert stored(tmp_path) == (1, {"a": 1})


@pytest.mark.parametrize("content", [b"", b"{", b'{"full": 1}'])
def test_a_stored_snapshot_that_cannot_be_read_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "snapshot.json").write_bytes(content)
    assert SnapshotFile(tmp_path).load() is None


def test_a_disk_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    file = SnapshotFile(tmp_path / "file" / "below")
    file.save(Snapshot(full=True, commit_number=1, shard_count=SHARDS, templates=()))
    assert file.load() is None
