"""Which files of an output count: a log as Spark writes it, and what is beside it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.cli import output_files
from penstock.cli.output_files import committed_files, local_folder, logs_in_force
from penstock.control.errors import UserError
from tests.support.cli.shell import Shell


def entries(*names: str) -> str:
    lines = [json.dumps({"path": f"file:/elsewhere/{name}", "size": 1, "action": "add"}) for name in names]
    return "\n".join(["v1", *lines])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two tasks. Of one the log is compacted, and a batch is being written; each has a file that never committed."""
    for index, logs in enumerate(
        (
            {"0": entries("a"), "1.compact": entries("a", "b%20c"), "2": entries("d"), ".3.4f.tmp": entries("e")},
            {"0": entries("f"), ".0.crc": "crc"},
        )
    ):
        log = tmp_path / "out" / "g1" / f"task-{index}" / "_spark_metadata"
        log.mkdir(parents=True)
        for name, text in logs.items():
            (log / name).write_text(text)
        (log.parent / "never-committed").write_text("")
    return tmp_path / "out"


def test_the_files_that_logs_name_count_wherever_the_folder_is_mounted(folder: Path) -> None:
    first, second = folder / "g1" / "task-0", folder / "g1" / "task-1"
    assert list(committed_files(folder)) == [first / "a", first / "b c", first / "d", second / "f"]


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        ([], []),
        (["10", "9", ".11.tmp", "9.crc"], ["9", "10"]),
        (["8", "9.compact", "10", "19.compact", "20", "18"], ["19.compact", "20"]),
    ],
)
def test_the_newest_compaction_has_all_before_it(names: list[str], wanted: list[str]) -> None:
    assert logs_in_force(names) == wanted


def test_a_log_of_another_version_is_refused(folder: Path) -> None:
    (folder / "g1" / "task-1" / "_spark_metadata" / "0").write_text("v2\n{}")
    with pytest.raises(UserError, match="is of version v2, not v1"):
        list(committed_files(folder))


def test_what_is_printed_and_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output: dict[str, Any] = {"type": "files", "path": f"file://{folder}"}
    cell = SimpleNamespace(get_job=lambda _: SimpleNamespace(config={"output": output}))
    monkeypatch.setattr(output_files, "client", lambda: cell)
    shell = Shell(monkeypatch, capsys)
    lines = shell("jobs", "files", "etl").ok().splitlines()
    assert lines == [str(path) for path in committed_files(folder)]
    assert json.loads(shell("jobs", "files", "etl", "--json").ok()) == lines
    output["path"] = "s3a://bucket/out"
    assert "s3a://bucket/out is no folder of this machine" in shell("jobs", "files", "etl").refusal()
    output["type"] = "kafka"
    assert "etl writes to kafka, and only an output of type files" in shell("jobs", "files", "etl").refusal()


def test_a_path_of_this_machine_has_three_forms(folder: Path) -> None:
    assert {local_folder(f"{scheme}{folder}") for scheme in ("", "file:", "file://")} == {folder}
