"""What a checkpoint's logs say."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.control.errors import BrokenCheckpoint
from penstock.spark.checkpoint import (
    is_clean,
    last_commit,
    last_offset,
    parse_offsets,
    planned_batch,
    task_checkpoint,
)
from penstock.spark.files import is_local, local_path

ENTRY = 'v1\n{"batchWatermarkMs":5,"conf":{}}\n{"events":{"2":2881,"3":7118}}\n-'


def write_logs(folder: Path, offsets: list[str], commits: list[str]) -> str:
    for log, names in (("offsets", offsets), ("commits", commits)):
        (folder / log).mkdir(parents=True)
        for name in names:
            (folder / log / name).write_text(ENTRY if log == "offsets" else 'v1\n{"nextBatchWatermarkMs":5}')
    return str(folder)


@pytest.mark.parametrize("root", ["/data/ck", "/data/ck/", "file:///data/ck", "s3a://bucket/ck"])
def test_path_of_a_task(root: str) -> None:
    assert task_checkpoint(root, "clean", 3, 0) == f"{root.rstrip('/')}/clean/g3/task-0"


@pytest.mark.parametrize(
    ("path", "expected"),
    [("/a/b", "/a/b"), ("file:/a/b", "/a/b"), ("file:///a/b", "/a/b"), ("file:/a%20b", "/a b"), ("/a%20b", "/a%20b")],
)
def test_local_paths(path: str, expected: str) -> None:
    assert is_local(path)
    assert local_path(path) == Path(expected)


def test_other_file_systems_have_no_local_path() -> None:
    assert not is_local("hdfs://nn/ck")
    with pytest.raises(ValueError, match="hdfs"):
        local_path("hdfs://nn/ck")


@pytest.mark.parametrize(
    ("offsets", "commits", "planned", "finished", "clean"),
    [
        ([], [], None, None, True),
        (["0"], [], 0, None, False),
        (["0"], ["0"], 0, 0, True),
        (["8", "9", "10"], ["8", "9"], 10, 9, False),
        (["9", "10"], ["9", "10"], 10, 10, True),
        (["1", ".2.abc.tmp", ".1.crc", "x3"], ["1"], 1, 1, True),
    ],
)
def test_logs(
    tmp_path: Path, offsets: list[str], commits: list[str], planned: int | None, finished: int | None, clean: bool
) -> None:
    checkpoint = write_logs(tmp_path, offsets, commits)
    assert (last_offset(checkpoint), last_commit(checkpoint), is_clean(checkpoint)) == (planned, finished, clean)


def test_a_checkpoint_that_does_not_exist_is_empty_and_clean(tmp_path: Path) -> None:
    checkpoint = str(tmp_path / "none")
    assert last_offset(checkpoint) is None
    assert is_clean(checkpoint)


@pytest.mark.parametrize("offsets", [[], ["1"]])
def test_a_commit_without_its_plan_is_a_contradiction(tmp_path: Path, offsets: list[str]) -> None:
    with pytest.raises(BrokenCheckpoint, match="batch 2 is committed"):
        is_clean(write_logs(tmp_path, offsets, ["2"]))


def test_offsets_entry() -> None:
    batch = parse_offsets(ENTRY)
    assert batch.metadata["batchWatermarkMs"] == 5
    assert batch.sources == ('{"events":{"2":2881,"3":7118}}', None)


@pytest.mark.parametrize("text", ["", "v2\n{}\n-", "garbage", "v1\nnot json\n-"])
def test_unreadable_offsets_entry(tmp_path: Path, text: str) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "4").write_text(text)
    with pytest.raises(BrokenCheckpoint, match="offsets/4"):
        planned_batch(str(tmp_path), 4)


def test_missing_offsets_entry(tmp_path: Path) -> None:
    with pytest.raises(BrokenCheckpoint, match="is missing"):
        planned_batch(str(tmp_path), 0)
